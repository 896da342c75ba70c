/**
 * The short-lived blocks of a part of the axis as a picture, which is kept while the view is inside of it. Without it,
 * a hundred thousand blocks of a few pixels each would be added up in every frame.
 *
 * A column is 2^-k of the axis wide, about a pixel. So zooming in makes a new grid when the view is half as wide, and
 * uses the same one until then.
 *
 * @typedef {Object} GridPlace
 * @property {number} unit   width of a column on the axis
 * @property {number} x0, x1   part of the axis that the grid covers
 * @property {number} classes   the classes of blocks (levels.js) in it: those below this one
 */
import { momentBefore } from "./axis.js";
import { CLASS_COUNT, rangeOfClass, shortestOf } from "./levels.js";
import { lastAtMost } from "./marks.js";

export const GRID_COLUMNS = 4096;
export const GRID_ROWS = 320;
/** Blocks up to this many columns long are in the grid. Longer ones are drawn with sharp edges. */
const LONGEST = 32;
/** With fewer blocks in view than this, drawing each one is as fast. */
const WORTH_IT = 25000;

/** Returns the grid that a view of `width` pixels needs. */
export function gridPlace(view, axis, width) {
    const span = view.x1 - view.x0;
    const finest = axis.length / GRID_COLUMNS;
    const wanted = Math.max((span / width) * 1.34, span / (0.75 * GRID_COLUMNS));
    const level = Math.max(0, Math.ceil(Math.log2(finest / wanted)));
    const unit = finest / 2 ** level;
    // Begins at a quarter of its length, so that any view up to three quarters of it fits inside.
    const quarter = unit * (GRID_COLUMNS / 4);
    const x0 = level === 0 ? 0 : Math.floor(view.x0 / quarter) * quarter;
    const shortest = shortestOf(axis);
    const classes = Math.max(0, Math.min(CLASS_COUNT, 1 + Math.floor(Math.log2((unit * LONGEST) / shortest) + 1e-9)));
    return { unit, x0, x1: x0 + unit * GRID_COLUMNS, classes };
}

/** True if there are enough blocks in view for a grid. */
export function isGridWorthIt(place, levels, run, axis, number, view) {
    let blocks = 0;
    for (let c = 0; c < place.classes; c++) {
        const [first, end] = rangeOfClass(levels, run, axis, number, c, view.x0, view.x1);
        blocks += end - first;
    }
    return blocks > WORTH_IT;
}

/**
 * The columns that are being added up, as channels of cells: red, green, blue, coverage. Blocks come in the order of
 * allocation, so a column is complete once a block begins after it. Few columns are open, since longer blocks are not
 * in the grid.
 */
const OPEN_COLUMNS = 64;
const sums = new Float32Array(OPEN_COLUMNS * GRID_ROWS * 4);

/** Converts the sums of a column to cells, and sets them to 0. */
function closeColumn(column, cells) {
    let from = (column % OPEN_COLUMNS) * GRID_ROWS * 4;
    for (let at = column; at < cells.length; at += GRID_COLUMNS, from += 4) {
        const a = sums[from + 3];
        if (a === 0) continue;
        const most = a > 255 ? 255 / a : 1; // rounding may make a sum slightly larger than the whole
        cells[at] =
            (sums[from] * most + 0.5) |
            ((sums[from + 1] * most + 0.5) << 8) |
            ((sums[from + 2] * most + 0.5) << 16) |
            ((a * most + 0.5) << 24);
        sums[from] = sums[from + 1] = sums[from + 2] = sums[from + 3] = 0;
    }
}

/** Returns the first block that may reach into the grid. */
function firstBlock(place, run, axis, number) {
    const before = momentBefore(axis, number, place.x0 - place.unit * LONGEST);
    return lastAtMost(run.blocks.alloc, before) + 1;
}

/**
 * Returns the cells by row from the bottom, then by column, as words: red, green and blue premultiplied, and coverage,
 * each up to 255. Coverage adds up, since blocks do not overlap. A frame reads most of the grid, so it is as small as
 * its picture.
 * @param {Float32Array} paint   [4 * label]: red, green, blue and opacity of a label's blocks
 * @returns {Uint32Array}
 */
export function makeGrid(place, levels, run, axis, number, paint) {
    const { count, alloc, free, low, size, label } = run.blocks;
    const { block: bytes } = run.sizes;
    const { classes } = levels;
    const xs = axis.xs[number];
    const cells = new Uint32Array(GRID_COLUMNS * GRID_ROWS);
    const perRow = GRID_ROWS / run.addressBytes;
    const perUnit = 1 / place.unit;
    let open = 0;
    for (let block = firstBlock(place, run, axis, number); block < count; block++) {
        if (classes[block] >= place.classes) continue;
        const begin = (xs[alloc[block]] - place.x0) * perUnit;
        if (begin >= GRID_COLUMNS) break;
        const left = Math.max(0, begin);
        const right = Math.min(GRID_COLUMNS, (xs[free[block]] - place.x0) * perUnit);
        while (open < Math.floor(left)) closeColumn(open++, cells);
        const bottom = low[block] * perRow;
        addToSums(left, right, bottom, bottom + bytes[size[block]] * perRow, paint, label[block] * 4);
    }
    while (open < GRID_COLUMNS) closeColumn(open++, cells);
    return cells;
}

function addToSums(left, right, bottom, top, paint, from) {
    const r = paint[from],
        g = paint[from + 1],
        b = paint[from + 2],
        a = paint[from + 3] * 255;
    const firstRow = Math.floor(bottom);
    const lastRow = Math.min(GRID_ROWS - 1, Math.floor(top));
    for (let column = Math.floor(left); column < right; column++) {
        const wide = (right < column + 1 ? right : column + 1) - (left > column ? left : column);
        let at = ((column % OPEN_COLUMNS) * GRID_ROWS + firstRow) * 4;
        for (let row = firstRow; row <= lastRow; row++, at += 4) {
            const part = wide * ((top < row + 1 ? top : row + 1) - (bottom > row ? bottom : row));
            sums[at] += r * part;
            sums[at + 1] += g * part;
            sums[at + 2] += b * part;
            sums[at + 3] += a * part;
        }
    }
}

/** Returns the row of the grid for each row of pixels. */
export function gridRows(view, run, height) {
    const perPixel = ((view.high - view.low) / run.addressBytes / height) * GRID_ROWS;
    const top = (view.high / run.addressBytes) * GRID_ROWS;
    return Uint16Array.from({ length: height }, (_, y) =>
        Math.min(GRID_ROWS - 1, Math.max(0, top - (y + 0.5) * perPixel)),
    );
}

/** Returns the cells of a row of the grid for each pixel: from [2 * x] to [2 * x + 1], inclusive. */
export function gridColumns(place, view, width) {
    const perPixel = (view.x1 - view.x0) / width / place.unit;
    const begin = (view.x0 - place.x0) / place.unit;
    const columns = new Int32Array(width * 2);
    for (let x = 0; x < width; x++) {
        const first = Math.min(GRID_COLUMNS - 1, Math.floor(begin + x * perPixel));
        columns[2 * x] = first;
        columns[2 * x + 1] = Math.min(GRID_COLUMNS, Math.max(first + 1, Math.ceil(begin + (x + 1) * perPixel))) - 1;
    }
    return columns;
}

/** Returns a flag for each row of the grid: 1 if it is not empty. */
function filledRows(cells) {
    const filled = new Uint8Array(GRID_ROWS);
    for (let row = 0; row < GRID_ROWS; row++) {
        const end = (row + 1) * GRID_COLUMNS;
        let at = row * GRID_COLUMNS;
        while (at < end && cells[at] === 0) at++;
        filled[row] = Number(at < end);
    }
    return filled;
}

/** A cache of these flags by grid. */
const filledOf = new WeakMap();
export function isRowFilled(cells, row) {
    if (!filledOf.has(cells)) filledOf.set(cells, filledRows(cells));
    return filledOf.get(cells)[row] === 1;
}

/**
 * The mean of this many cells fits two channels into a word. A chart with more of them in a pixel is too small to read.
 */
const MOST_CELLS = 256;

/** Returns the mean of cells `first` to `last`, by channel. */
function meanOfCells(cells, first, last) {
    const count = Math.min(MOST_CELLS, last + 1 - first);
    let even = 0; // red and blue
    let odd = 0; // green and coverage
    for (let at = first; at < first + count; at++) {
        even += cells[at] & 0xff00ff;
        odd += (cells[at] >>> 8) & 0xff00ff;
    }
    const share = 1 / count;
    return (
        ((even & 0xffff) * share + 0.5) |
        (((odd & 0xffff) * share + 0.5) << 8) |
        (((even >>> 16) * share + 0.5) << 16) |
        (((odd >>> 16) * share + 0.5) << 24)
    );
}

/** Sets `out` to the mean of the grid's cells in each pixel of a row, in the same format. */
export function sampleGrid(cells, columns, row, out) {
    const base = row * GRID_COLUMNS;
    for (let x = 0; x < out.length; x++) {
        const first = base + columns[2 * x];
        const last = base + columns[2 * x + 1];
        const p = cells[first],
            q = cells[last];
        // There are mostly one or two cells: rounds their mean up, all channels at once.
        if (last - first < 2) out[x] = (p | q) - (((p ^ q) & 0xfefefefe) >>> 1);
        else out[x] = meanOfCells(cells, first, last);
    }
}
