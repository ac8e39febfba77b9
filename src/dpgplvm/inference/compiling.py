"""How functions are compiled: so that they run fast, or so that they are compiled fast.

Half of the time of a small fit is compiling. What is called a few dozen times, or does little at every call, is not
worth optimising: it is compiled about ten times as fast when it is not, and runs at half to a third of the speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, wraps
from typing import Any

import jax

_Function = Callable[..., Any]
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


def runs_fast(*static: str) -> Callable[[_Function], _Function]:
    """`jax.jit` for what most of the time goes into; `static` are the names of arguments to compile anew for."""
    return _compiled(static, _RUN_FAST)


def compiles_fast(*static: str) -> Callable[[_Function], _Function]:
    """`jax.jit` for what is called seldom, or is small."""
    return _compiled(static, _COMPILE_FAST)


def _compiled(static: tuple[str, ...], options: Mapping[str, _Option]) -> Callable[[_Function], _Function]:
    def decorate(function: _Function) -> _Function:
        @cache
        def compiled() -> _Function:
            known = {name: value for name, value in options.items() if _is_known(name, value)}
            return jax.jit(function, static_argnames=static, compiler_options=known)

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            return compiled()(*arguments, **named)

        return call

    return decorate


@cache
def _is_known(name: str, value: _Option) -> bool:
    """Whether the compiler has this option: they come and go with its versions."""
    try:
        jax.jit(lambda: 0, compiler_options={name: value})()
    except jax.errors.JaxRuntimeError:
        return False
    return True
