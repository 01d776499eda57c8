"""Rewrites a parsed chat template so that everything it does passes through the sandbox's counters.

Jinja's sandbox intercepts calls, attributes and operators. What it does not see (loop steps, printed text, `~`, slices,
keys, comparisons) is wrapped here in filters, whose names no template can spell outside a string.
"""

from __future__ import annotations

from typing import cast

from jinja2 import Environment, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.visitor import NodeTransformer

from specchat.chat.errors import TemplateError

STEP, LOOP, PRINT, JOIN, READ, HOLD = "<step>", "<loop>", "<print>", "<join>", "<read>", "<hold>"

_REFUSED = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends, nodes.Block)


class GenerationTag(Extension):
    """`{% generation %}…{% endgeneration %}` marks answers for training; for a chat it is only its body."""

    tags = {"generation"}  # noqa: RUF012 - Jinja declares it so

    def parse(self, parser: Parser) -> nodes.Node:
        """The body, in a scope of its own."""
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def metered(tree: nodes.Template, environment: Environment) -> nodes.Template:
    """The template with its counters in place; raises TemplateError for tags that no chat template needs."""
    for node in tree.find_all(_REFUSED):
        raise TemplateError(
            f"The model's chat template uses {{% {type(node).__name__.lower()} %}} in line {node.lineno}, which is not "
            "available to templates in model files. Use another copy of this model."
        )
    _Meters().visit(tree)
    tree.set_environment(environment)
    return tree


def _through(name: str, node: nodes.Node, *arguments: nodes.Expr) -> nodes.Filter:
    # Jinja types the iterable of a loop as any node.
    return nodes.Filter(cast(nodes.Expr, node), name, list(arguments), [], None, None, lineno=node.lineno)


def _size(node: nodes.Node) -> nodes.Const:
    return nodes.Const(sum(1 for _ in node.find_all(nodes.Expr)), lineno=node.lineno)


class _Meters(NodeTransformer):
    """One method a kind of node; sizes are taken before a node's own counters are added."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - named after the node
        if node.recursive:
            raise TemplateError(
                f"The model's chat template uses a recursive loop in line {node.lineno}, which is not available to "
                "templates in model files. Use another copy of this model."
            )
        size = _size(node)
        self.generic_visit(node)
        node.iter = _through(LOOP, node.iter, size)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Macro:  # noqa: N802
        size = _size(node)
        self.generic_visit(node)
        counter = _through(STEP, nodes.Const("", lineno=node.lineno), size)
        node.body.insert(0, nodes.Output([counter], lineno=node.lineno))
        return node

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.CallBlock:  # noqa: N802
        size = _size(node)
        self.generic_visit(node)
        counter = _through(STEP, nodes.Const("", lineno=node.lineno), size)
        node.body.insert(0, nodes.Output([counter], lineno=node.lineno))
        return node

    def visit_Output(self, node: nodes.Output) -> nodes.Output:  # noqa: N802
        self.generic_visit(node)
        node.nodes = [_through(PRINT, child) for child in node.nodes]
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return _through(JOIN, nodes.List(node.nodes, lineno=node.lineno))

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802
        self.generic_visit(node)
        node.expr = _through(READ, node.expr)
        for operand in node.ops:
            operand.expr = _through(READ, operand.expr)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Pair:  # noqa: N802
        self.generic_visit(node)
        node.key = _through(READ, node.key)
        return node

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        # Tuples can be keys, and hashing one reads it to any depth. The target of a loop is spelled as a tuple too.
        return _through(READ, node) if node.ctx == "load" else node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return _through(HOLD, node) if isinstance(node.arg, nodes.Slice) else node
