"""A program that uses the package as typed programs do. mypy reads it and nothing runs it (types.sh)."""
import memtrace

with memtrace.open("a.db") as trace:
    category: str = trace.peak(by="role").shares[0].category
    total: int = sum(block.bytes for block in trace.top(3)[:2])
    step: str = trace.peak().step  # type: ignore[assignment]


@memtrace.record("b.db")
def train(steps: int) -> str:
    return str(steps)


@memtrace.limit_memory("20 GiB")
def test_training() -> None:
    said: str = train(5)
    said = train("5")  # type: ignore[arg-type]
    memtrace.log_to(said, trace)
