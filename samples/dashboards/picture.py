"""Draws the memory of a run over time, stacked by category: python picture.py memtrace.db picture.png"""
import csv
import subprocess
import sys

import numpy
from PIL import Image, ImageDraw

COLORS = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#eeca3b", "#b279a2", "#ff9da6", "#9d755d", "#bab0ac"]
WIDTH, HEIGHT, LEGEND = 960, 400, 230


def live_bytes(trace):
    """Returns the categories of the newest run, the largest first, and their live bytes after each event."""
    told = subprocess.run([sys.executable, "-m", "memtrace", "export", "events", "--trace", trace], check=True,
                          capture_output=True, text=True)
    events = list(csv.DictReader(told.stdout.splitlines()))
    live, blocks = {event["category"]: numpy.zeros(len(events)) for event in events}, {}
    for place, event in enumerate(events):
        if event["id"] in blocks:  # a free, or another label
            category, size = blocks.pop(event["id"])
            live[category][place] -= size
        if event["action"] != "free":
            blocks[event["id"]] = event["category"], int(event["block_bytes"])
            live[event["category"]][place] += int(event["block_bytes"])
    sums = {category: changes.cumsum() for category, changes in live.items()}
    names = sorted(sums, key=lambda category: -sums[category].mean())
    return names, numpy.stack([sums[name] for name in names])


def draw(trace):
    """Returns the picture, an array of height, width and color."""
    names, live = live_bytes(trace)
    total = live.sum(axis=0)
    image = Image.new("RGB", (WIDTH + LEGEND, HEIGHT), "white")
    pen = ImageDraw.Draw(image)
    for x in range(WIDTH):  # of the events in a column, the highest counts
        begin, end = x * len(total) // WIDTH, max((x + 1) * len(total) // WIDTH, x * len(total) // WIDTH + 1)
        event, base = begin + int(total[begin:end].argmax()), 0.0
        for number, part in enumerate(live[:, event]):
            top = base + part / total.max() * (HEIGHT - 20)
            if top > base:
                pen.line([(x, HEIGHT - base), (x, HEIGHT - top)], fill=COLORS[min(number, len(COLORS) - 1)])
            base = top
    pen.text((4, 2), f"allocated bytes by event, peak {total.max() / 2**30:.2f} GiB", fill="black")
    for number, name in enumerate(names[:len(COLORS)]):
        y = 20 + 18 * number
        pen.rectangle([WIDTH + 8, y, WIDTH + 20, y + 12], fill=COLORS[number])
        pen.text((WIDTH + 26, y), f"{name[:20]}  {live[number].max() / 2**20:.0f} MiB", fill="black")
    return numpy.asarray(image)


if __name__ == "__main__":
    Image.fromarray(draw(sys.argv[1])).save(sys.argv[2])
