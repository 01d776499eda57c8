"""Chat templates written for these tests, each with the constructs of a family of published ones."""

from __future__ import annotations

CHATML = """\
{%- for message in messages %}
    {%- if loop.first and message.role != 'system' %}
        {{- '<|im_start|>system\\nBe helpful.<|im_end|>\\n' }}
    {%- endif %}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

# Llama 3: trims, spells BOS, writes the date, checks for tools.
HEADERS = """\
{{- bos_token }}
{%- if not date_string is defined %}{% set date_string = strftime_now("%d %b %Y") %}{% endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|header|>system<|/header|>\\n\\nToday: " + date_string + "\\n\\n" }}
{%- if tools is not none %}{{- "Environment: tools\\n" }}{% endif %}
{{- system_message }}{{- "<|im_end|>" }}
{%- for message in messages %}
    {{- '<|header|>' + message['role'] + '<|/header|>\\n\\n' + message['content'] | trim + '<|im_end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|header|>assistant<|/header|>\\n\\n' }}{% endif %}"""

# Qwen 3: looks backwards for the last question, drops old reasoning, can be told not to think.
THINKING = """\
{%- set ns = namespace(searching=true, last_query=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and not (message.content.startswith('<reply>')
            and message.content.endswith('</reply>')) %}
        {%- set ns.searching = false %}{% set ns.last_query = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}{% set content = message.content %}{% else %}{% set content = '' %}{% endif %}
    {%- if message.role != "assistant" %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- else %}
        {%- set thoughts = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thoughts = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thoughts = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query and thoughts %}
            {{- '<|im_start|>assistant\\n<think>\\n' + thoughts.strip('\\n') + '\\n</think>\\n\\n' + content }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{%- endif %}"""

# DeepSeek R1: opens the reasoning itself, drops it from earlier answers.
PREOPENED = """\
{{ bos_token }}
{%- for message in messages -%}
    {%- if message['role'] == 'system' %}{{ message['content'] }}{% endif -%}
    {%- if message['role'] == 'user' %}{{ '<|User|>' + message['content'] }}{% endif -%}
    {%- if message['role'] == 'assistant' and message['content'] is not none -%}
        {%- set content = message['content'] -%}
        {%- if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif -%}
        {{ '<|Assistant|>' + content + eos_token }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|Assistant|><think>\\n' }}{% endif %}"""

# Gemma: no system role, strict alternation, trims, another name for the assistant.
STRICT = """\
{{ bos_token }}
{%- if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for message in messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {%- if (message['role'] == 'assistant') %}{% set role = 'model' %}
    {%- else %}{% set role = message['role'] %}{% endif %}
    {{- '<|im_start|>' + role + '\\n' + message['content'] | trim + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>model\\n' }}{% endif %}"""

# Mistral v1: spaces around contents, the system text inside the last question.
INSTRUCT = """\
{%- if messages[0].role == 'system' %}
    {%- set system, loop_messages = messages[0].content, messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message.role == 'user' %}
        {%- if loop.last and system is defined %}
            {{- '[INST] ' + system + '\\n\\n' + message.content + ' [/INST]' }}
        {%- else %}
            {{- '[INST] ' + message.content + ' [/INST]' }}
        {%- endif %}
    {%- else %}
        {{- ' ' + message.content + eos_token }}
    {%- endif %}
{%- endfor %}"""

# Multimodal families: a macro for contents, lists of parts, a training tag, conditions on the text itself.
MACROS = """\
{%- macro render(content) -%}
    {%- if content is string -%}{{ content }}
    {%- elif content is iterable and content is not mapping -%}
        {%- for item in content %}{{ item.text }}{% endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- for message in messages -%}
    {%- if message.role == 'assistant' -%}
        {% generation %}{{ '<|im_start|>assistant\\n' ~ render(message.content) ~ '<|im_end|>' }}{% endgeneration %}
    {%- else -%}
        {%- set body = render(message.content)|trim -%}
        {{ '<|im_start|>' ~ message.role ~ (' (long)' if body|length > 40 else '') ~ '\\n' }}
        {%- if body and body[0] == '/' %}{{ '[command]' }}{% endif -%}
        {{ body ~ '<|im_end|>' }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

ALL = {
    "chatml": CHATML,
    "headers": HEADERS,
    "thinking": THINKING,
    "preopened": PREOPENED,
    "strict": STRICT,
    "instruct": INSTRUCT,
    "macros": MACROS,
}
