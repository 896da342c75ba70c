/** The pixels of the map and the samples of the grid, against adding up every block in every pixel. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeAxis } from "../../viewer/axis.js";
import { categoryColors } from "../../viewer/colors.js";
import { GRID_COLUMNS, GRID_ROWS, gridColumns, gridPlace, makeGrid, sampleGrid } from "../../viewer/grid.js";
import { makeLevels } from "../../viewer/levels.js";
import { makePaint } from "../../viewer/map.js";
import { rasterMap } from "../../viewer/map_raster.js";
import { wholeView, zoomAt } from "../../viewer/view.js";
import { makeRandom, makeRun } from "./random_run.mjs";
import { CATEGORIES, PHASES } from "./synthetic.mjs";

const WIDTH = 211;
const HEIGHT = 97;
const THEME = { backgroundRgb: [255, 255, 255], cachedRgb: [220, 225, 230], fadedRgb: [150, 150, 150] };

const draw = makeRandom();
const { run } = await makeRun(["small", "noise"]);
const axis = makeAxis("time", [run], PHASES);
const levels = makeLevels(run, axis, 0);
const { paint } = makePaint(run, categoryColors(CATEGORIES), null, THEME);

/** Returns a random view, as wide as the run or down to a hundredth of it. */
function anyView() {
    const view = zoomAt(wholeView(axis, run.addressBytes), axis, draw(axis.length), 1 / (1 + draw(100)));
    const low = draw(run.addressBytes / 2);
    return { ...view, low, high: low + run.addressBytes / (1 + draw(8)) };
}

function rasterOf(view) {
    const pixels = new Uint32Array(WIDTH * HEIGHT);
    // Without hatches: they are laid over what is compared.
    const picture = {
        width: WIDTH,
        height: HEIGHT,
        view,
        axis,
        run,
        number: 0,
        levels,
        paint,
        hatches: [],
        theme: THEME,
    };
    rasterMap(picture, pixels);
    return new Uint8Array(pixels.buffer);
}

/** Adds a colour to every pixel by the part of it that lies in the rectangle. */
function addSlowly(sums, left, right, top, bottom, color) {
    for (let y = Math.max(0, Math.floor(top)); y < Math.min(HEIGHT, bottom); y++)
        for (let x = Math.max(0, Math.floor(left)); x < Math.min(WIDTH, right); x++) {
            const part = (Math.min(right, x + 1) - Math.max(left, x)) * (Math.min(bottom, y + 1) - Math.max(top, y));
            color.forEach((value, i) => (sums[(y * WIDTH + x) * 4 + i] += value * part));
        }
}

function rasterSlowly(view) {
    const sums = new Float64Array(WIDTH * HEIGHT * 4);
    const below = new Uint8Array(WIDTH * HEIGHT);
    const toX = (event) => ((axis.xs[0][event] - view.x0) / (view.x1 - view.x0)) * WIDTH;
    const toY = (address) => ((view.high - address) / (view.high - view.low)) * HEIGHT;
    const { parts: segments, blocks, sizes } = run;
    for (let i = 0; i < segments.count; i++) {
        const end = segments.life[i] > 0 ? segments.mapped[i] + segments.life[i] : run.eventCount;
        const [left, right] = [segments.mapped[i], end].map((event) => Math.round(toX(event)));
        const [top, bottom] = [segments.low[i] + segments.bytes[i], segments.low[i]].map((at) => Math.round(toY(at)));
        for (let y = Math.max(0, top); y < Math.min(HEIGHT, bottom); y++)
            for (let x = Math.max(0, left); x < Math.min(WIDTH, right); x++) below[y * WIDTH + x] = 1;
    }
    for (let i = 0; i < blocks.count; i++) {
        const color = [...paint.subarray(blocks.label[i] * 4, blocks.label[i] * 4 + 4)];
        const left = toX(blocks.alloc[i]);
        const right = Math.max(toX(blocks.free[i]), left + 0.3);
        const bottom = toY(blocks.low[i]);
        const top = bottom - (sizes.block[blocks.size[i]] / (view.high - view.low)) * HEIGHT;
        addSlowly(sums, left, right, top, bottom, color);
        if (bottom - top < 4 || right - left < 4) continue;
        const darker = [...color.slice(0, 3).map((value) => value * -0.3), 0];
        addSlowly(sums, left, left + 1, top, bottom, darker);
        addSlowly(sums, left + 1, right, top, top + 1, darker);
    }
    return Float64Array.from({ length: sums.length }, (_, i) => {
        const pixel = i >> 2;
        const cover = sums[pixel * 4 + 3];
        const under = (below[pixel] ? THEME.cachedRgb : THEME.backgroundRgb)[i & 3];
        return i % 4 === 3 ? 255 : cover > 1 ? sums[i] / cover : sums[i] + under * (1 - cover);
    });
}

test("a pixel is the mean of the blocks in it, whatever was drawn before", () => {
    for (let i = 0; i < 12; i++) {
        const view = anyView();
        const [found, expected] = [rasterOf(view), rasterSlowly(view)];
        found.forEach((value, at) => {
            if ((at >> 2) % WIDTH === 0) return; // what lived shortly before the view may be widened into it, or not
            const where = `byte ${at % 4} of pixel ${(at >> 2) % WIDTH}, ${Math.floor((at >> 2) / WIDTH)}`;
            assert.ok(Math.abs(value - expected[at]) < 3, `${where}: ${value} for ${expected[at]}`);
        });
    }
});

/** Returns red, green, blue and coverage of each cell of the grid, from the blocks that belong in it. */
function gridSlowly(place) {
    const sums = new Map();
    const perRow = GRID_ROWS / run.addressBytes;
    for (let i = 0; i < run.blocks.count; i++) {
        const [left, right] = [run.blocks.alloc[i], run.blocks.free[i]].map(
            (event) => (axis.xs[0][event] - place.x0) / place.unit,
        );
        if (levels.classes[i] >= place.classes || right <= 0 || left >= GRID_COLUMNS) continue;
        const bottom = run.blocks.low[i] * perRow;
        const top = bottom + run.sizes.block[run.blocks.size[i]] * perRow;
        const color = paint.subarray(run.blocks.label[i] * 4, run.blocks.label[i] * 4 + 4);
        for (let row = Math.floor(bottom); row < Math.min(GRID_ROWS, top); row++)
            for (let column = Math.max(0, Math.floor(left)); column < Math.min(GRID_COLUMNS, right); column++) {
                const part =
                    (Math.min(right, column + 1) - Math.max(left, column)) *
                    (Math.min(top, row + 1) - Math.max(bottom, row));
                const at = row * GRID_COLUMNS + column;
                const cell = sums.get(at) ?? [0, 0, 0, 0];
                sums.set(
                    at,
                    cell.map((sum, i) => sum + color[i] * (i === 3 ? 255 : 1) * part),
                );
            }
    }
    return sums;
}

test("a cell of the grid is the mean of the short blocks in it, wherever the grid begins", () => {
    for (let i = 0; i < 6; i++) {
        const view = i === 0 ? wholeView(axis, run.addressBytes) : anyView();
        const place = gridPlace(view, axis, WIDTH);
        const cells = makeGrid(place, levels, run, axis, 0, paint);
        const expected = gridSlowly(place);
        assert.ok(i > 0 || expected.size > 1000);
        cells.forEach((cell, at) => {
            const sums = expected.get(at) ?? [0, 0, 0, 0];
            for (let channel = 0; channel < 4; channel++) {
                const found = (cell >>> (8 * channel)) & 255;
                assert.ok(Math.abs(found - Math.min(255, sums[channel])) < 1.5, `cell ${at}: ${found} for ${sums}`);
            }
        });
    }
});

test("a sample of the grid is the mean of the cells that a pixel touches", () => {
    const cells = Uint32Array.from({ length: GRID_COLUMNS * GRID_ROWS }, (_, i) => Math.imul(i, 2654435761));
    for (const span of [0.3, 0.9, 1.4, 2.6, 4]) {
        const place = { unit: 1, x0: 0 };
        // No pixel ends where a cell does, so that rounding does not decide what it touches.
        const x0 = draw(GRID_COLUMNS - span * WIDTH - 1) + 0.137;
        const columns = gridColumns(place, { x0, x1: x0 + span * WIDTH }, WIDTH);
        const row = draw(GRID_ROWS);
        const out = new Uint32Array(WIDTH);
        sampleGrid(cells, columns, row, out);
        for (let x = 0; x < WIDTH; x++)
            for (let channel = 0; channel < 4; channel++) {
                const touched = [];
                for (let at = Math.floor(x0 + x * span); at < x0 + (x + 1) * span; at++)
                    touched.push((cells[row * GRID_COLUMNS + at] >>> (8 * channel)) & 255);
                const mean = touched.reduce((sum, value) => sum + value, 0) / touched.length;
                const found = (out[x] >>> (8 * channel)) & 255;
                assert.ok(Math.abs(found - mean) <= 0.5 + 1e-9, `span ${span}, pixel ${x}: ${found} for ${mean}`);
            }
    }
});
