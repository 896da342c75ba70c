"""What the calls of bench/operator_cases.py are made of: a call's name, its inputs, and the list of all.

A call is named after its operator and its inputs: `embedding backward i64[100]<10 bf16[10,64]+grad`. So its name says all that
what it takes depends on, and no two calls are the same.
"""
from __future__ import annotations

import contextlib
from collections.abc import Callable
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple, Union

import torch

f32, bf16, f16, i32, i64 = torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int64
f64, c64 = torch.float64, torch.complex64
SHORT = {f32: "f32", bf16: "bf16", f16: "f16", i32: "i32", i64: "i64", f64: "f64", c64: "c64", torch.float8_e4m3fn: "f8"}
Shape = Union[int, tuple[int, ...]]


class Given(NamedTuple):
    """An input, made anew for each call that is measured."""

    text: str  # f32[8,64]+grad
    make: Callable[[], Any]

    def seen(self, how: str) -> Given:
        """Returns a view of it, by an expression: seen(".t()")."""
        return Given(self.text + how, lambda: eval("it" + how, {"it": self.make()}))


class Case(NamedTuple):
    operator: str  # "sort", "sort backward": calls of one operator are counted together
    make: Callable[[], Callable[[], Any]]  # makes the inputs, and returns the call


CASES: dict[str, Case] = {}
CALLS: dict[str, Callable[..., Any]] = {}  # those that PyTorch has under no name


def call(function: Callable[..., Any]) -> Callable[..., Any]:
    """Lets cases call a function by its name."""
    CALLS[function.__name__] = function
    return function


# ---- inputs ----


def text_of(dtype: torch.dtype, shape: tuple[int, ...]) -> str:
    return f"{SHORT[dtype]}[{','.join(map(str, shape))}]"


def noise(*shape: int, dtype: torch.dtype = f32, grad: bool = False, channels_last: bool = False) -> Given:
    def make() -> torch.Tensor:
        made = torch.randn(*shape, device="cuda").to(dtype)
        made = made.contiguous(memory_format=torch.channels_last) if channels_last else made
        return made.requires_grad_(grad)

    return Given(text_of(dtype, shape) + "+channels_last" * channels_last + "+grad" * grad, make)


def leaf(*shape: int, dtype: torch.dtype = f32, channels_last: bool = False) -> Given:
    """Returns noise that gets a gradient."""
    return noise(*shape, dtype=dtype, grad=True, channels_last=channels_last)


def positive(*shape: int) -> Given:
    return Given(text_of(f32, shape) + ">0", lambda: torch.rand(*shape, device="cuda"))


def below(limit: int, *shape: int) -> Given:
    """Returns whole numbers from 0."""
    return Given(f"{text_of(i64, shape)}<{limit}", lambda: torch.randint(0, limit, shape, device="cuda"))


def mask(*shape: int) -> Given:
    return Given(f"bool[{','.join(map(str, shape))}]", lambda: torch.randint(0, 2, shape, device="cuda").bool())


def on_host(*shape: int) -> Given:
    return Given(f"host-{text_of(f32, shape)}", lambda: torch.randn(*shape))


def positive_definite(*shape: int, dtype: torch.dtype = f32, grad: bool = False) -> Given:
    def make() -> torch.Tensor:
        half = torch.randn(*shape, device="cuda", dtype=dtype)
        return (half @ half.mH + 64 * torch.eye(shape[-1], device="cuda")).requires_grad_(grad)

    return Given(f"positive-definite-{text_of(dtype, shape)}" + "+grad" * grad, make)


def repeated(shape: tuple[int, ...], value: int, dtype: torch.dtype, device: str = "cuda") -> Given:
    return Given(f"{'host-' * (device == 'cpu')}{text_of(dtype, shape)}={value}", lambda: torch.full(shape, value, dtype=dtype, device=device))


def net(kind: str, inputs: int, hidden: int, dtype: torch.dtype, **named: Any) -> Given:
    """Returns a recurrent net or its cell."""
    words = ",".join([str(inputs), str(hidden), *(f"{name}={value}" for name, value in named.items())])
    return Given(f"{kind}({words})", lambda: getattr(torch.nn, kind)(inputs, hidden, **named).cuda().to(dtype))


def packed_sizes(length: int, batch: int) -> Given:
    """Returns how many sequences have a word at each place. Their lengths fall evenly from `length` to a quarter of it."""
    lengths = [length - round(0.75 * length * place / batch) for place in range(batch)]
    sizes = [sum(one > place for one in lengths) for place in range(length)]
    return Given(f"host-i64[{length}]={batch}..", lambda: torch.tensor(sizes))


# ---- cases ----


def words_of(given: Any) -> str:
    """Returns an argument as it stands in a name."""
    if isinstance(given, Given):
        return given.text
    if isinstance(given, list):
        return f"{len(given)}*{words_of(given[0])}"
    if isinstance(given, tuple):
        return f"({','.join(map(words_of, given))})"
    return str(given).removeprefix("torch.")


def made(given: Any) -> Any:
    """Returns an argument of the call: an input that is made, or the value itself."""
    if isinstance(given, Given):
        return given.make()
    return type(given)(map(made, given)) if isinstance(given, (list, tuple)) else given


def function_of(name: str) -> Callable[..., Any]:
    """Returns the function of that name: ours, one of torch.nn.functional or torch, or the method of the first argument."""
    if name in CALLS:
        return CALLS[name]
    for room in (torch.nn.functional, torch):
        with contextlib.suppress(AttributeError):
            found: Callable[..., Any] = attrgetter(name)(room)
            if callable(found):  # torch.cpu is a module
                return found
    return lambda first, *more, **named: methodcaller(name, *more, **named)(first)


def listed(operator: str, words: list[str], make: Callable[[], Callable[[], Any]]) -> None:
    name = " ".join([operator, *words])
    assert name not in CASES, name
    CASES[name] = Case(operator, make)


def words_of_all(given: tuple[Any, ...], named: dict[str, Any]) -> list[str]:
    return [*map(words_of, given), *(f"{name}={words_of(value)}" for name, value in named.items())]


def forward(name: str, *given: Any, **named: Any) -> None:
    """Lists a call of a function."""
    def make() -> Callable[[], Any]:
        ready, ready_named = made(given), {key: made(value) for key, value in named.items()}
        return lambda: function_of(name)(*ready, **ready_named)

    listed(name, words_of_all(given, named), make)


def leaves_of(given: tuple[Any, ...]) -> list[torch.Tensor]:
    """Returns what gets a gradient, parameters of modules among it."""
    groups = [list(one.parameters()) if isinstance(one, torch.nn.Module) else [one] for one in given]
    return [one for group in groups for one in group if isinstance(one, torch.Tensor) and one.requires_grad]


def backward(name: str, *given: Any, **named: Any) -> None:
    """Lists the backward pass of a call of a function, or of its first result."""
    def make() -> Callable[[], Any]:
        ready = made(given)
        result = function_of(name)(*ready, **named)
        result = result[0] if isinstance(result, (tuple, list)) else result
        gradient, leaves = torch.ones_like(result), leaves_of(ready)
        return lambda: torch.autograd.grad(result, leaves, gradient, retain_graph=True)

    listed(f"{name} backward", words_of_all(given, named), make)


def both(name: str, *given: Any, **named: Any) -> None:
    forward(name, *given, **named)
    backward(name, *given, **named)
