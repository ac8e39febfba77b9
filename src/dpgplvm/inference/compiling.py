"""How functions are compiled: so that they run fast, or so that they are compiled fast.

Half of the time of a small fit is compiling. What is called a few dozen times, or does little at every call, is not
worth optimising: it is compiled about ten times as fast when it is not, and runs at half to a third of the speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, cached_property, update_wrapper
from typing import Any

import jax

_Option = bool | int | str

_RUN_FAST: dict[str, _Option] = {
    # Groups have threads of their own; XLA's, inside of one group, cost more than they gain at every size measured.
    "xla_cpu_multi_thread_eigen": False,
    # Sums in trees take a fifth of the time to compile, and save none.
    "xla_disable_hlo_passes": "tree_reduction_rewriter",
}
_COMPILE_FAST = _RUN_FAST | {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}


class Compiled:
    """A function that is compiled when it is first called, with those of the options that the compiler has."""

    def __init__(self, function: Callable[..., Any], static: tuple[str, ...], options: Mapping[str, _Option]) -> None:
        update_wrapper(self, function)
        self._function, self._static, self._options = function, static, options

    @cached_property
    def jitted(self) -> Any:
        """What `jax.jit` made of it."""
        known = {name: value for name, value in self._options.items() if _is_known(name, value)}
        return jax.jit(self._function, static_argnames=self._static, compiler_options=known)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.jitted(*arguments, **named)


def runs_fast(*static: str) -> Callable[[Callable[..., Any]], Compiled]:
    """For what most of the time goes into; `static` are the names of arguments to compile anew for."""
    return lambda function: Compiled(function, static, _RUN_FAST)


def compiles_fast(*static: str) -> Callable[[Callable[..., Any]], Compiled]:
    """For what is called seldom, or is small."""
    return lambda function: Compiled(function, static, _COMPILE_FAST)


@cache
def _is_known(name: str, value: _Option) -> bool:
    """Whether the compiler has this option: they come and go with its versions."""
    try:
        jax.jit(lambda: 0, compiler_options={name: value})()
    except jax.errors.JaxRuntimeError:
        return False
    return True
