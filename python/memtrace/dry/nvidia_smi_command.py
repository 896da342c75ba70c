"""The command nvidia-smi of a dry run, a program of its own. It reads the cards' figures from a JSON file, its first argument, which the
process of the dry run writes before it starts a command (nvidia_smi.py)."""
from __future__ import annotations

import argparse
import json
import sys
from typing import Any

NONE = "[N/A]"
HEADINGS = {"memory.total": "[MiB]", "memory.used": "[MiB]", "memory.free": "[MiB]", "utilization.gpu": "[%]",
            "utilization.memory": "[%]", "power.draw": "[W]"}  # the units of fields
SYNONYMS = {"gpu_name": "name", "gpu_uuid": "uuid"}


def field_of(card: dict[str, Any], name: str, has_units: bool) -> str:
    """Returns a field of a card as --query-gpu prints it."""
    value = card.get(SYNONYMS.get(name, name))
    if value is None:
        return NONE
    return f"{value} {HEADINGS[name][1:-1]}" if has_units and name in HEADINGS else str(value)


def query(cards: list[dict[str, Any]], names: list[str], form: list[str]) -> None:
    if "noheader" not in form:
        print(", ".join(f"{name} {HEADINGS[name]}" if name in HEADINGS else name for name in names))
    for card in cards:
        print(", ".join(field_of(card, name, "nounits" not in form) for name in names))


def show(cards: list[dict[str, Any]]) -> None:
    """Prints the table of nvidia-smi without arguments, with the columns that programs search for."""
    print(f"NVIDIA-SMI, simulated by memtrace    Driver Version: {cards[0]['driver_version']}")
    for card in cards:
        print(f"| {card['index']:3}  {card['name']} |")
        print(f"| N/A   0C    P0    0W / N/A | {card['memory.used']:7}MiB / {card['memory.total']:7}MiB |   0%      Default |")


def main(figures: str, words: list[str]) -> int:
    parser = argparse.ArgumentParser("nvidia-smi", description="The simulated cards of a dry run of memtrace.", allow_abbrev=False)
    parser.add_argument("-L", "--list-gpus", action="store_true")
    parser.add_argument("-i", "--id", help="indices or UUIDs, separated by commas")
    parser.add_argument("--query-gpu", help="fields, separated by commas")
    parser.add_argument("--format", default="csv")
    asked = parser.parse_args(words)
    with open(figures, encoding="utf-8") as file:
        cards = json.load(file)
    if asked.id is not None:
        cards = [card for card in cards if {str(card["index"]), card["uuid"]} & set(asked.id.split(","))]
    if not cards:
        print("No devices were found")
        return 6
    if asked.query_gpu is not None:
        query(cards, [name.strip() for name in asked.query_gpu.split(",")], [word.strip() for word in asked.format.split(",")])
    elif asked.list_gpus:
        for card in cards:
            print(f"GPU {card['index']}: {card['name']} (UUID: {card['uuid']})")
    else:
        show(cards)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
