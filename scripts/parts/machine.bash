# shellcheck shell=bash
# What this machine is and has: its CPU, Python, compilers and graphics card. Sourced by scripts/setup.
# shellcheck disable=SC2034,SC2154 # variables set for scripts/setup, and by it

apt_command() { # PACKAGE...
    if ((EUID == 0)); then echo "apt-get install $*"; else echo "sudo apt-get install $*"; fi
}

# The instructions a native build may use; on a CPU without them it dies with SIGILL. New names that a new kernel lists
# for other features are no reason to build again.
cpu() {
    local line flag found=''
    if [[ ! -r /proc/cpuinfo ]]; then
        sysctl -n machdep.cpu.brand_string 2>/dev/null || true
        return
    fi
    while IFS= read -r line; do
        [[ $line == flags* || $line == Features* ]] || continue
        for flag in ${line#*:}; do
            case $flag in
            *avx* | *sse* | *amx* | *aes* | *sha[0-9_]* | fma* | f16c | bmi* | abm | popcnt | movbe | gfni | vpcl*) found+=" $flag" ;;
            asimd* | sve* | sme | sme[0-9_]* | i8mm | bf16 | fphp | crc32 | atomics) found+=" $flag" ;;
            esac
        done
        break
    done </proc/cpuinfo
    echo "$found"
}

find_nvcc() { type -P "${CUDACXX:-nvcc}" || type -P "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; }

has_driver() { [[ -e /proc/driver/nvidia/version ]] || nvidia-smi >/dev/null 2>&1 </dev/null; }

# The same question without asking the driver, which can take a second.
may_have_driver() { [[ -e /proc/driver/nvidia/version ]] || type -P nvidia-smi >/dev/null; }

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null </dev/null; }

new_enough() { # VERSION
    [[ $1 =~ ^([0-9]+)\.([0-9]+)$ ]] && ((BASH_REMATCH[1] > 3 || (BASH_REMATCH[1] == 3 && BASH_REMATCH[2] >= 11)))
}

choose_python() { # sets $python
    python=''
    if usable_venv; then
        python=$venv/bin/python
        return
    fi
    local candidate version seen='' candidates=(python3 python3.14 python3.13 python3.12 python3.11)
    if [[ -n ${PYTHON:-} ]]; then candidates=("$PYTHON"); fi
    for candidate in "${candidates[@]}"; do
        version=$(version_of "$candidate") || continue
        if new_enough "$version"; then
            python=$(type -P "$candidate")
            break
        fi
        seen=${seen:-" ($candidate is $version)"}
    done
    if [[ -z $python ]]; then
        die "specchat needs Python 3.11 or newer$seen: install one, or name one with PYTHON=/path/to/python3."
    fi
    "$python" -c 'import sys; from importlib.util import find_spec; sys.exit(not find_spec("ensurepip"))' 2>/dev/null </dev/null ||
        die "$python can't make virtual environments: install that part with \`$(apt_command "python$version-venv")\`."
}

first_that_runs() { # COMMAND...
    local candidate
    for candidate in "$@"; do
        # CC may carry arguments or a launcher ("ccache gcc"): what follows the first word doesn't matter here.
        if "${candidate%% *}" --version >/dev/null 2>&1 </dev/null; then
            echo "${candidate%% *}"
            return
        fi
    done
    return 1
}

choose_compilers() { # sets $cc and $cxx
    if ! { cc=$(first_that_runs "${CC:-cc}" gcc clang) && cxx=$(first_that_runs "${CXX:-c++}" g++ clang++); }; then
        die "llama.cpp is built here and needs a C and a C++ compiler: install them with \`$(apt_command g++)\`."
    fi
}

choose_accelerator() { # sets $accelerator and $cmake_args
    accelerator=cpu
    cmake_args=$llama_args
    if has_driver; then
        if CUDACXX=$(find_nvcc); then
            export CUDACXX
            accelerator=cuda
            cmake_args+=" -DGGML_CUDA=ON"
        else
            unset CUDACXX
            say "There is an NVIDIA driver but no nvcc, so this build is for the CPU: install CUDA's compiler" \
                "(\`$(apt_command nvidia-cuda-toolkit)\`, or NVIDIA's own toolkit) and call again for the GPU."
        fi
    fi
    cmake_args+="${CMAKE_ARGS:+ $CMAKE_ARGS}"
}
