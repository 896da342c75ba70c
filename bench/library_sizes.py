#!/usr/bin/env python3
"""What NVIDIA's libraries say that they need of a card: cuDNN of recurrent nets and CTC loss, cuFFT of plans, cuSOLVER of matrices.

    bench/library_sizes.py FILE.json.xz

Needs a card and a CUDA build of PyTorch, whose copies of the libraries it asks, by documented calls that say sizes and compute
nothing. FILE gets a list of questions and answers for each library: rows of whole numbers, whose columns `COLUMNS` names. An
answer is -1 if the library does not support the question.
"""
from __future__ import annotations

import ctypes
import itertools
import json
import lzma
import random
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_uint, c_void_p
from typing import Any

import torch

Row = list[int]
Number = Any  # a number of ctypes

COLUMNS = {
    "rnn": "mode dtype tf32 algorithm input hidden projection layers directions length batch words dropout: "
           "workspace reserve workspace_inference weights",
    "ctc": "length batch classes longest_target: workspace",
    "fft": "kind dtype rank batch sizes[3] stride: workspace",
    "solver": "routine dtype m n k mode batch: bytes",
    "solver_more": "routine dtype m n k mode batch: bytes",
}
SECONDS = {"rnn": 40, "ctc": 2, "fft": 45, "solver": 15, "solver_more": 5}  # at most

F32, F64, F16, BF16 = 0, 1, 2, 9  # cudnnDataType_t
RELU, TANH, LSTM, GRU = range(4)  # cudnnRNNMode_t
STANDARD, PERSIST_STATIC, SMALL_H = 0, 1, 3  # cudnnRNNAlgo_t


def loaded(name: str) -> Any:
    """Returns the library that PyTorch has loaded."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        found = re.search(rf"/\S*/lib{name}\.so\S*", maps.read())
    assert found, f"PyTorch has not loaded lib{name}"
    return ctypes.CDLL(found.group(0))


# ---- recurrent nets ----

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 80, 96, 100, 127, 128, 129, 160, 192, 193, 200, 255,
         256, 257, 300, 320, 384, 385, 400, 500, 512, 513, 640, 650, 768, 896, 1000, 1024, 1025, 1150, 1500, 2048)
LENGTHS = (*range(1, 41), 48, 50, 63, 64, 65, 70, 96, 100, 128, 150, 200, 256, 300, 400, 512, 1000, 2000)
BATCHES = (*range(1, 41), 48, 50, 63, 64, 65, 72, 80, 88, 96, 100, 112, 120, 127, 128, 129, 136, 160, 192, 200, 256, 300, 512, 1024)


class Nets:
    def __init__(self) -> None:
        self.cudnn, self.handle = loaded("cudnn"), c_void_p()
        self.check(self.cudnn.cudnnCreate(byref(self.handle)))
        self.net, self.data = c_void_p(), c_void_p()
        self.check(self.cudnn.cudnnCreateRNNDescriptor(byref(self.net)))
        self.check(self.cudnn.cudnnCreateRNNDataDescriptor(byref(self.data)))
        self.dropouts = [self.dropout(0.0), self.dropout(0.5)]

    @staticmethod
    def check(status: int) -> None:
        assert status == 0, f"cuDNN's status is {status}"

    def state_bytes(self) -> int:
        size = c_size_t()
        self.check(self.cudnn.cudnnDropoutGetStatesSize(self.handle, byref(size)))
        return size.value

    def dropout(self, rate: float) -> Any:
        descriptor, size = c_void_p(), self.state_bytes() if rate else 0
        self.state = torch.empty(size, dtype=torch.uint8, device="cuda")
        self.check(self.cudnn.cudnnCreateDropoutDescriptor(byref(descriptor)))
        self.check(self.cudnn.cudnnSetDropoutDescriptor(descriptor, self.handle, c_float(rate), c_void_p(self.state.data_ptr() if rate else 0),
                                                        c_size_t(size), ctypes.c_ulonglong(0)))
        return descriptor

    def answer(self, mode: int, dtype: int, tf32: int, algorithm: int, inputs: int, hidden: int, projection: int, layers: int,
               directions: int, length: int, batch: int, words: int, dropout: int) -> Row:
        """Returns the answers. `words` is the number of words of a packed input; 0: the input is not packed."""
        precision = F32 if dtype in (F16, BF16) else dtype
        math = 1 if dtype == F16 else 0 if tf32 else 3
        status = self.cudnn.cudnnSetRNNDescriptor_v8(
            self.net, algorithm, mode, 2, directions - 1, 0, dtype, precision, math, inputs, hidden, projection or hidden, layers,
            self.dropouts[dropout], c_uint(0 if words else 1))
        lengths = lengths_of(words, length, batch)
        status = status or self.cudnn.cudnnSetRNNDataDescriptor(self.data, dtype, 1 if words else 0, length, batch, inputs,
                                                                (c_int * batch)(*lengths), None)
        workspace, reserve, inference, weights = (c_size_t() for _ in range(4))
        sizes = self.cudnn.cudnnGetRNNTempSpaceSizes
        if status or sizes(self.handle, self.net, 1, self.data, byref(workspace), byref(reserve)):
            return [-1] * 4
        if sizes(self.handle, self.net, 0, self.data, byref(inference), None):
            inference.value = 0
        self.check(self.cudnn.cudnnGetRNNWeightSpaceSize(self.handle, self.net, byref(weights)))
        return [workspace.value, reserve.value, inference.value, weights.value]


def lengths_of(words: int, length: int, batch: int) -> Row:
    """Returns lengths of sequences, the longest first, which have so many words."""
    if not words:
        return [length] * batch
    left, lengths = words - length, [length]
    for rest in range(batch - 1, 0, -1):
        lengths.append(min(lengths[-1], max(1, left - (rest - 1))))
        left -= lengths[-1]
    return lengths


def algorithms_of(mode: int, dtype: int, inputs: int, hidden: int, projection: int, layers: int, directions: int, batch: int,
                  is_packed: bool) -> list[int]:
    """Returns those that PyTorch chooses forward and backward, and the standard one."""
    found = [STANDARD]
    if projection or is_packed:
        return found
    gated = mode in (LSTM, GRU)
    if dtype != F64 and hidden <= (192 if gated else 384):
        found.append(SMALL_H)
    if dtype == F16 and layers == directions == 1 and hidden <= 1024 and hidden % 128 == inputs % 128 == 0 and mode != GRU:
        found += [PERSIST_STATIC] if batch % 8 == 0 and batch <= 128 else []
    return found


def with_algorithms(mode: int, dtype: int, tf32: int, sizes: tuple[int, ...]) -> Iterator[Row]:
    inputs, hidden, projection, layers, directions, length, batch, words, dropout = sizes
    for algorithm in algorithms_of(mode, dtype, inputs, hidden, projection, layers, directions, batch, bool(words)):
        yield [mode, dtype, tf32, algorithm, *sizes]


def swept_nets() -> Iterator[tuple[int, ...]]:
    """Yields sizes that differ from a usual net in one or two respects."""
    for base in ((128, 256), (65, 33), (512, 512)):
        for size in SIZES:
            yield size, base[1], 0, 1, 1, 50, 16, 0, 0
            yield base[0], size, 0, 1, 1, 50, 16, 0, 0
        yield from ((*base, 0, 1, 1, length, 16, 0, 0) for length in LENGTHS)
        yield from ((*base, 0, 1, 1, 50, batch, 0, 0) for batch in BATCHES)
        for layers, directions, dropout in itertools.product(range(1, 7), (1, 2), (0, 1)):
            yield *base, 0, layers, directions, 50, 16, 0, dropout
            yield *base, 0, layers, directions, 50, 16, 500, dropout
            yield *base, 24, layers, directions, 50, 16, 0, dropout


def drawn_net(draw: random.Random) -> tuple[int, ...]:
    def size(most: int) -> int:
        return draw.choice((round(2 ** draw.uniform(0, most)), 8 * round(2 ** draw.uniform(0, most - 3)), 1 << draw.randint(0, most)))

    inputs, hidden, length, batch = size(11), size(11), size(10), size(9)
    layers, directions = draw.choice((1, 1, 2, 3, 4)), draw.choice((1, 2))
    words = draw.randint(length + batch - 1, length * batch) if draw.random() < 0.25 else 0
    projection = draw.randint(1, hidden - 1) if hidden > 1 and draw.random() < 0.1 else 0
    return inputs, hidden, projection, layers, directions, length, batch, words, int(layers > 1 and draw.random() < 0.3)


KINDS = ((F32, 1), (F16, 1), (BF16, 1), (F32, 0), (F64, 1))


def questions_of_nets() -> Iterator[Row]:
    draw = random.Random(1)
    for (dtype, tf32), sizes in itertools.product(KINDS, swept_nets()):
        for mode in (LSTM, GRU, TANH):
            if mode == LSTM or not sizes[2]:
                yield from with_algorithms(mode, dtype, tf32, sizes)
    for _ in range(6000):
        sizes, mode = drawn_net(draw), draw.choice((LSTM, LSTM, GRU, TANH, RELU))
        dtype, tf32 = draw.choice(KINDS)
        yield from with_algorithms(mode, dtype, tf32, (*sizes[:2], sizes[2] if mode == LSTM else 0, *sizes[3:]))


def ask_nets() -> Iterator[Row]:
    nets = Nets()
    yield [nets.state_bytes()]
    for question in questions_of_nets():
        yield question + nets.answer(*question)


# ---- CTC loss ----


def ask_ctc() -> Iterator[Row]:
    nets = Nets()
    cudnn, loss, scores = nets.cudnn, c_void_p(), c_void_p()
    nets.check(cudnn.cudnnCreateCTCLossDescriptor(byref(loss)))
    nets.check(cudnn.cudnnCreateTensorDescriptor(byref(scores)))
    draw = random.Random(2)
    for number in range(500):
        length, batch, classes = (draw.randint(1, most) for most in ((1000, 64, 300), (60, 20, 40))[number % 2])
        longest = draw.randint(1, min(length, 255))
        nets.check(cudnn.cudnnSetCTCLossDescriptor_v9(loss, F32, 1, 0, longest))
        nets.check(cudnn.cudnnSetTensorNdDescriptor(scores, F32, 3, (c_int * 3)(length, batch, classes),
                                                    (c_int * 3)(batch * classes, classes, 1)))
        size = c_size_t()
        status = cudnn.cudnnGetCTCLossWorkspaceSize_v8(nets.handle, 0, loss, scores, scores, byref(size))
        yield [length, batch, classes, longest, -1 if status else size.value]


# ---- Fourier transforms ----

C2C, R2C, C2R = range(3)
REAL = {F32: 0, F64: 1, F16: 2}  # cudaDataType; complex ones are 4 more
SIDES = (8, 13, 16, 17, 28, 32, 37, 48, 50, 60, 64, 66, 85, 96, 100, 101, 120, 128, 150, 160, 192, 200, 211, 224, 241, 256, 320, 384, 400,
         421, 512, 640, 721, 768, 1000, 1024, 1440, 2048)


def plan_bytes(cufft: Any, kind: int, dtype: int, batch: int, sizes: tuple[int, ...], stride: int) -> int:
    """Returns the bytes of the workspace of a plan. With a stride above 1, elements of the input have that stride, and batches have stride 1."""
    plan, size, rank, real = c_int(), c_size_t(), len(sizes), REAL[dtype]
    assert cufft.cufftCreate(byref(plan)) == 0
    try:
        assert cufft.cufftSetAutoAllocation(plan, 0) == 0
        long = ctypes.c_longlong
        given = (long * rank)(*sizes)
        embed, step, apart = (given, stride, 1) if stride > 1 else (None, 1, 1)
        out, out_apart = (given, sizes[-1] // 2 + 1 if kind == R2C else sizes[-1]) if stride > 1 else (None, 1)
        status = cufft.cufftXtMakePlanMany(plan, rank, given, embed, long(step), long(apart), real if kind == R2C else real + 4, out,
                                           long(1), long(out_apart), real if kind == C2R else real + 4, long(batch), byref(size), real + 4)
        return -1 if status else size.value
    finally:
        cufft.cufftDestroy(plan)


def questions_of_plans() -> list[tuple[int, int, int, tuple[int, ...], int]]:
    """Returns kinds of transforms, dtypes, batches, sizes and strides: first those that programs have most."""
    draw = random.Random(3)
    kinds = (C2C, R2C, C2R)
    first = [(kind, F32, batch, (size,), 1) for kind in kinds for size in range(2, 1100) for batch in (64,)]
    first += [(kind, F32, draw.choice((1, 8, 20, 300, 4096)), (round(2 ** draw.uniform(3, 20)),), 1) for kind in kinds for _ in range(500)]
    first += [(kind, F32, 1 << draw.randint(0, 10), (1 << power,), 1) for kind in kinds for power in range(2, 24) for _ in range(2)]
    first += [(kind, F32, draw.choice((1, 4, 16, 20, 64, 640, 1280)), (draw.choice(SIDES), draw.choice(SIDES)), 1)
              for kind in kinds for _ in range(900)]
    more = [(kind, F32, draw.choice((1, 4, 32)), tuple(draw.choice(SIDES[:20]) for _ in range(3)), 1) for kind in kinds for _ in range(150)]
    more += [(kind, F64, draw.choice((1, 16)), (draw.choice(SIDES),) * rank, 1) for kind in kinds for rank in (1, 2) for _ in range(60)]
    more += [(kind, F16, draw.choice((1, 16)), (1 << draw.randint(2, 10),) * rank, 1) for kind in kinds for rank in (1, 2) for _ in range(20)]
    more += [(kind, F32, columns, (draw.choice(SIDES),), columns) for kind in kinds for _ in range(100)
             for columns in (draw.choice((2, 3, 16, 64, 100, 1000)),)]
    draw.shuffle(first)
    draw.shuffle(more)
    return first[:4000] + more + first[4000:]


def ask_plans() -> Iterator[Row]:
    torch.fft.fft(torch.ones(64, device="cuda"))
    cufft = loaded("cufft")
    for kind, dtype, batch, sizes, stride in questions_of_plans():
        padded = [*sizes, 0, 0][:3]
        yield [kind, dtype, len(sizes), batch, *padded, stride, plan_bytes(cufft, kind, dtype, batch, sizes, stride)]


# ---- matrices ----

LETTERS = "SDCZ"
CUDA_TYPES = (0, 1, 4, 5)  # cudaDataType, by letter
ITEM_BYTES = (4, 8, 8, 16)
USUAL = ("potrf", "getrf", "geqrf", "xgeqrf", "orgqr", "ormqr", "gesvd", "gesvdj", "gesvdj_batched", "syevd", "xsyevd", "syevj")
ROUTINES = (*USUAL, "syevj_batched", "xsyev_batched", "sytrf", "potri", "xgetrf", "gesvda", "geev")


class Solver:
    def __init__(self) -> None:
        torch.linalg.cholesky(torch.eye(4, device="cuda"))
        self.library, self.handle, self.params = loaded("cusolver"), c_void_p(), c_void_p()
        self.jacobi, self.eigen = c_void_p(), c_void_p()
        made = (self.library.cusolverDnCreate(byref(self.handle)), self.library.cusolverDnCreateParams(byref(self.params)),
                self.library.cusolverDnCreateGesvdjInfo(byref(self.jacobi)), self.library.cusolverDnCreateSyevjInfo(byref(self.eigen)))
        assert not any(made), made
        self.room = torch.empty(1 << 20, device="cuda")
        self.place = c_void_p(self.room.data_ptr())

    def items(self, name: str, letter: int, *given: Number) -> int:
        """Returns the bytes of a workspace that the library counts in elements. `...` stands for the count."""
        name = name.replace("or", "un", 1) if letter > 1 and name in ("orgqr", "ormqr") else name
        name = name.replace("sy", "he", 1) if letter > 1 and name.startswith("sye") else name
        count = c_int()
        words = [byref(count) if one is ... else one for one in given]
        status = getattr(self.library, f"cusolverDn{LETTERS[letter]}{name}_bufferSize")(self.handle, *words)
        return -1 if status else count.value * ITEM_BYTES[letter]

    def generic(self, name: str, *given: Number, batch: int = 0) -> int:
        size, host = c_size_t(), c_size_t()
        words = [*given, byref(size), byref(host), *([c_int64(batch)] if batch else [])]
        status = getattr(self.library, f"cusolverDn{name}_bufferSize")(self.handle, *words)
        return -1 if status else size.value

    def answer(self, routine: str, letter: int, m: int, n: int, k: int, mode: int, batch: int) -> int:
        """Returns the bytes of a workspace. `mode`: 1 computes vectors, 2 in the reduced form; else a side or a triangle."""
        at, long, kind, real = self.place, c_int64, CUDA_TYPES[letter], CUDA_TYPES[letter % 2]
        side, vectors, reduced, square = max(m, n), int(mode > 0), int(mode > 1), [long(n)]
        return {
            "potrf": lambda: self.generic("Xpotrf", self.params, 0, *square, kind, at, *square, kind),
            "getrf": lambda: self.items("getrf", letter, m, n, at, m, ...),
            "xgetrf": lambda: self.generic("Xgetrf", self.params, long(m), *square, kind, at, long(m), kind),
            "geqrf": lambda: self.items("geqrf", letter, m, n, at, m, ...),
            "xgeqrf": lambda: self.generic("Xgeqrf", None, long(m), *square, kind, at, long(m), kind, at, kind),
            "orgqr": lambda: self.items("orgqr", letter, m, n, k, at, m, at, ...),
            "ormqr": lambda: self.items("ormqr", letter, mode, 1, m, n, k, at, n if mode else m, at, at, m, ...),
            "gesvd": lambda: self.items("gesvd", letter, m, n, ...),
            "gesvdj": lambda: self.items("gesvdj", letter, vectors, reduced, m, n, at, m, at, at, m, at, n, ..., self.jacobi),
            "gesvdj_batched": lambda: self.items("gesvdjBatched", letter, vectors, m, n, at, m, at, at, m, at, n, ..., self.jacobi, batch),
            "gesvda": lambda: self.items("gesvdaStridedBatched", letter, vectors, k, m, n, at, m, long(m * n), at, long(k), at, m,
                                         long(m * k), at, n, long(n * k), ..., batch),
            "syevd": lambda: self.items("syevd", letter, vectors, 0, n, at, n, at, ...),
            "syevj": lambda: self.items("syevj", letter, vectors, 0, n, at, n, at, ..., self.eigen),
            "syevj_batched": lambda: self.items("syevjBatched", letter, vectors, 0, n, at, n, at, ..., self.eigen, batch),
            "xsyevd": lambda: self.generic("Xsyevd", self.params, vectors, 0, *square, kind, at, *square, real, at, kind),
            "xsyev_batched": lambda: self.generic("XsyevBatched", self.params, vectors, 0, *square, kind, at, *square, real, at, kind,
                                                  batch=batch),
            "geev": lambda: self.generic("Xgeev", self.params, 0, vectors, *square, kind, at, *square, CUDA_TYPES[letter | 2], at, kind, at,
                                         *square, kind, at, long(side), kind),
            "sytrf": lambda: self.items("sytrf", letter, n, at, n, ...),
            "potri": lambda: self.items("potri", letter, 0, n, at, n, ...),
        }[routine]()


def questions_of_matrices(routines: tuple[str, ...]) -> list[tuple[str, int, int, int, int, int, int]]:
    """Returns questions about square matrices and others, in no order."""
    draw = random.Random(4)
    sides = (*range(1, 70), 80, 96, 100, 127, 128, 129, 160, 192, 200, 255, 256, 257, 300, 400, 500, 511, 512, 513, 600, 700, 768, 800, 900,
             1000, 1023, 1024, 1025, 1200, 1500, 2000, 2048, 3000, 4096)
    asked = [(routine, letter, n, n, n, mode, 8) for routine, letter, n in itertools.product(routines, range(4), sides)
             for mode in range(modes_of(routine))]
    for routine, letter, _ in itertools.product(routines, range(4), range(80)):
        m, n = (round(2 ** draw.uniform(0, 11)) for _ in range(2))
        m, n = (max(m, n), min(m, n)) if routine in ("gesvd", "orgqr", "gesvda") else (m, n)
        asked.append((routine, letter, m, n, draw.randint(1, min(m, n)), draw.randrange(modes_of(routine)), draw.choice((1, 2, 16, 100))))
    draw.shuffle(asked)
    return asked


def modes_of(routine: str) -> int:
    return 2 if routine == "ormqr" else 3 if "sv" in routine or "ev" in routine else 1


def ask_matrices(routines: tuple[str, ...]) -> Iterator[Row]:
    solver = Solver()
    for routine, *given in questions_of_matrices(routines):
        try:
            said = solver.answer(routine, *given)
        except AttributeError:  # older than the routine
            said = -1
        yield [ROUTINES.index(routine), *given, said]


# ---- all ----


def within(rows: Iterable[Row], seconds: float) -> list[Row]:
    """Returns the rows that come within a time."""
    end, kept = time.monotonic() + seconds, list[Row]()
    for row in rows:
        kept.append(row)
        if time.monotonic() > end:
            break
    return kept


ASKS: dict[str, Callable[[], Iterator[Row]]] = {"rnn": ask_nets, "ctc": ask_ctc, "fft": ask_plans,
                                                "solver": lambda: ask_matrices(USUAL),
                                                "solver_more": lambda: ask_matrices(ROUTINES[len(USUAL):])}


def main() -> int:
    torch.nn.LSTM(8, 8).cuda()(torch.ones(2, 2, 8, device="cuda"))
    told: dict[str, Any] = {"torch": torch.__version__, "card": torch.cuda.get_device_name(), "cudnn": torch.backends.cudnn.version(),
                            "columns": COLUMNS, "routines": ROUTINES}
    failed = 0
    for name, ask in ASKS.items():
        begin = time.monotonic()
        try:
            told[name] = within(ask(), SECONDS[name])
        except Exception as error:  # of any kind: the other libraries still answer
            told[name], failed = f"{type(error).__name__}: {error}", 1
        print(f"{name}: {len(told[name])} in {time.monotonic() - begin:.1f} s", told[name] if failed else "", file=sys.stderr)
        with lzma.open(sys.argv[1], "wt") as file:
            json.dump(told, file)
    return failed


if __name__ == "__main__":
    sys.exit(main())
