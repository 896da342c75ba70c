/** The inks of the map and the cells of the grid, against adding up every block in every pixel. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeAxis } from "../../viewer/axis.js";
import * as grid from "../../viewer/grid.js";
import { gridColumns, sampleGrid } from "../../viewer/grid_view.js";
import { CACHED, FADED, FIRST_INK, inksOfLabels, UNMAPPED } from "../../viewer/inks.js";
import { makeLevels } from "../../viewer/levels.js";
import { MapRaster } from "../../viewer/map_raster.js";
import { wholeView, zoomAt } from "../../viewer/view.js";
import { makeRandom, makeRun } from "./random_run.mjs";
import { CATEGORIES, PHASES } from "./synthetic.mjs";

const { GRID_COLUMNS, GRID_ROWS, gridPlace, inkOfCell, LEAST_WIDTH, makeGrid, MOST_WEIGHT, weightOfCell } = grid;
const WIDTH = 211;
const HEIGHT = 97;
const INK_COUNT = FIRST_INK + CATEGORIES.length + 1;

const draw = makeRandom();
const { run } = await makeRun(["small", "noise"]);
const axis = makeAxis("time", [run], PHASES);
const levels = makeLevels(run, axis, 0);
const plain = inksOfLabels(run, null);

/** Returns a random view, as wide as the run or down to a hundredth of it. */
function anyView() {
    const view = zoomAt(wholeView(axis, run.addressBytes), axis, draw(axis.length), 1 / (1 + draw(100)));
    const low = draw(run.addressBytes / 2);
    return { ...view, low, high: low + run.addressBytes / (1 + draw(8)) };
}

const raster = new MapRaster();

function inksOf(view, inks, noGrid = () => assert.fail("the run is too small for a grid")) {
    const picture = { width: WIDTH, height: HEIGHT, view, axis, run, number: 0, levels, grid: noGrid, inks };
    raster.draw({ ...picture, inkCount: INK_COUNT });
    return raster.inks;
}

/** Calls visit(x, y, part) for each cell of a picture that a rectangle touches. */
function eachPart({ left, right, top, bottom }, width, height, visit) {
    for (let y = Math.max(0, Math.floor(top)); y < Math.min(height, bottom); y++)
        for (let x = Math.max(0, Math.floor(left)); x < Math.min(width, right); x++)
            visit(x, y, (Math.min(right, x + 1) - Math.max(left, x)) * (Math.min(bottom, y + 1) - Math.max(top, y)));
}

/** Returns the cover of each pixel by each ink, as [pixel * INK_COUNT + ink]. */
function coversSlowly(view, inks) {
    const covers = new Float64Array(WIDTH * HEIGHT * INK_COUNT);
    const toX = (event) => ((axis.xs[0][event] - view.x0) / (view.x1 - view.x0)) * WIDTH;
    const toY = (address) => ((view.high - address) / (view.high - view.low)) * HEIGHT;
    const { blocks, sizes } = run;
    for (let i = 0; i < blocks.count; i++) {
        const left = toX(blocks.alloc[i]);
        const box = {
            left,
            right: Math.max(toX(blocks.free[i]), left + LEAST_WIDTH),
            top: toY(blocks.low[i] + sizes.block[blocks.size[i]]),
            bottom: toY(blocks.low[i]),
        };
        eachPart(box, WIDTH, HEIGHT, (x, y, part) => {
            covers[(y * WIDTH + x) * INK_COUNT + inks[blocks.label[i]]] += part;
        });
    }
    return covers;
}

/** Returns 1 for each pixel where a segment has memory. */
function mappedSlowly(view) {
    const mapped = new Uint8Array(WIDTH * HEIGHT);
    const toX = (event) => Math.round(((axis.xs[0][event] - view.x0) / (view.x1 - view.x0)) * WIDTH);
    const toY = (address) => Math.round(((view.high - address) / (view.high - view.low)) * HEIGHT);
    const { parts } = run;
    for (let i = 0; i < parts.count; i++) {
        const end = parts.life[i] > 0 ? parts.mapped[i] + parts.life[i] : run.eventCount;
        const box = { left: toX(parts.mapped[i]), right: toX(end), top: toY(parts.low[i] + parts.bytes[i]) };
        eachPart({ ...box, bottom: toY(parts.low[i]) }, WIDTH, HEIGHT, (x, y) => (mapped[y * WIDTH + x] = 1));
    }
    return mapped;
}

/** Covers are integers of 4096ths, two for each block in a pixel. */
const ROUNDING = 0.02;
const SLIVER = 0.001; // the cover of a block's edge that rounds to none

function checkInks(view, inks) {
    const covers = coversSlowly(view, inks);
    const mapped = mappedSlowly(view);
    inksOf(view, inks).forEach((ink, pixel) => {
        if (pixel % WIDTH === 0) return; // what lived shortly before the view may be widened into it, or not
        const where = `pixel ${pixel % WIDTH}, ${Math.floor(pixel / WIDTH)} of ${JSON.stringify(view)}`;
        const own = covers.subarray(pixel * INK_COUNT, (pixel + 1) * INK_COUNT);
        const most = Math.max(...own.subarray(FIRST_INK));
        if (ink === FADED) assert.ok(own[FADED] > 0 && most < SLIVER, `${where} is faded, for ${most}`);
        else if (ink > FADED)
            assert.ok(own[ink] > 0 && own[ink] >= most - ROUNDING, `${where}: ${own[ink]} of ${most}`);
        else {
            assert.ok(Math.max(most, own[FADED]) < SLIVER, `${where} shows no block, of which ${most} is there`);
            assert.equal(ink, mapped[pixel] ? CACHED : UNMAPPED, where);
        }
    });
}

test("a pixel shows the category that covers most of it, and a block before memory without one", () => {
    for (let i = 0; i < 12; i++) checkInks(anyView(), plain);
});

test("blocks without emphasis are faded", () => {
    const emphasis = Uint8Array.from(run.labels.category, (category) => Number(category % 3 === 0));
    const inks = inksOfLabels(run, emphasis);
    assert.ok(inks.includes(FADED) && inks.some((ink) => ink >= FIRST_INK));
    for (let i = 0; i < 3; i++) checkInks(anyView(), inks);
});

/** Returns the cover of cells of the grid by ink: a map of a cell to [cover by ink]. */
function gridSlowly(place) {
    const sums = new Map();
    const perRow = GRID_ROWS / run.addressBytes;
    for (let i = 0; i < run.blocks.count; i++) {
        if (levels.classes[i] >= place.classes) continue;
        const [begin, end] = [run.blocks.alloc[i], run.blocks.free[i]].map(
            (event) => (axis.xs[0][event] - place.x0) / place.unit,
        );
        const left = Math.max(0, begin);
        const top = run.blocks.low[i] * perRow;
        const bottom = top + run.sizes.block[run.blocks.size[i]] * perRow;
        eachPart(
            { left, right: Math.max(left + LEAST_WIDTH, end), top, bottom },
            GRID_COLUMNS,
            GRID_ROWS,
            (x, y, part) => {
                const at = y * GRID_COLUMNS + x;
                if (!sums.has(at)) sums.set(at, new Float64Array(INK_COUNT));
                sums.get(at)[plain[run.blocks.label[i]]] += part;
            },
        );
    }
    return sums;
}

test("a cell of the grid has the ink that covers most of it, wherever the grid begins", () => {
    for (let i = 0; i < 6; i++) {
        const view = i === 0 ? wholeView(axis, run.addressBytes) : anyView();
        const place = gridPlace(view, axis, WIDTH);
        const { cells } = makeGrid(place, levels, run, axis, 0, plain, INK_COUNT);
        const expected = gridSlowly(place);
        assert.ok(i > 0 || expected.size > 1000);
        cells.forEach((cell, at) => {
            if (at % GRID_COLUMNS === 0 || (cell === 0 && !expected.has(at))) return;
            const covers = expected.get(at) ?? new Float64Array(INK_COUNT);
            const most = Math.max(...covers);
            if (cell === 0) return assert.ok(most < 1e-6, `cell ${at} is empty for ${most}`);
            assert.ok(covers[inkOfCell(cell)] >= most - 1e-4, `cell ${at}: ${covers[inkOfCell(cell)]} of ${most}`);
            const weight = Math.min(MOST_WEIGHT, Math.max(1, most * MOST_WEIGHT));
            assert.ok(Math.abs(weightOfCell(cell) - weight) < 0.6, `cell ${at}: ${weightOfCell(cell)} for ${weight}`);
        });
    }
});

test("a sample of the grid is what covers most of the cells that a pixel touches", () => {
    const cells = Uint16Array.from(
        { length: GRID_COLUMNS * GRID_ROWS },
        () => draw(4) && ((FIRST_INK + draw(5)) << 6) | (1 + draw(63)),
    );
    const covers = new Int32Array(INK_COUNT);
    for (const span of [0.3, 0.9, 1.4, 2.6, 4]) {
        const place = { unit: 1, x0: 0 };
        // No pixel ends where a cell does, so that rounding does not decide what it touches.
        const x0 = draw(GRID_COLUMNS - span * WIDTH - 1) + 0.137;
        const columns = gridColumns(place, { x0, x1: x0 + span * WIDTH }, WIDTH);
        const row = draw(GRID_ROWS);
        const out = new Uint16Array(WIDTH);
        sampleGrid(cells, columns, row, out, covers);
        assert.ok(covers.every((cover) => cover === 0));
        for (let x = 0; x < WIDTH; x++) {
            const sums = new Float64Array(INK_COUNT);
            let touched = 0;
            for (let at = Math.floor(x0 + x * span); at < x0 + (x + 1) * span; at++, touched++) {
                const cell = cells[row * GRID_COLUMNS + at];
                if (cell !== 0) sums[inkOfCell(cell)] += weightOfCell(cell);
            }
            const most = Math.max(...sums);
            if (out[x] === 0) assert.equal(most, 0);
            else {
                assert.equal(sums[inkOfCell(out[x])], most, `span ${span}, pixel ${x}`);
                assert.ok(Math.abs(weightOfCell(out[x]) - Math.max(1, most / touched)) <= 0.5 + 1e-9);
            }
        }
    }
});
