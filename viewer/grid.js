/**
 * The short-lived blocks of a part of the axis as a picture, which is kept while the view is inside of it. Without it,
 * a hundred thousand blocks of a few pixels each would be added up in every frame. A cell of the grid has the ink
 * that covers most of it, and how much of it that ink covers.
 *
 * A column is 2^-k of the axis wide, about a pixel. So zooming in makes a new grid when the view is half as wide, and
 * uses the same one until then.
 *
 * @typedef {Object} GridPlace
 * @property {number} unit   width of a column on the axis
 * @property {number} x0, x1   part of the axis that the grid covers
 * @property {number} classes   the classes of blocks (levels.js) in it: those below this one
 *
 * @typedef {{cells: Uint16Array, filled: Uint8Array}} Grid   filled: by row, 1 if it is not empty
 */
import { momentBefore } from "./axis.js";
import { FADED } from "./inks.js";
import { CLASS_COUNT, rangeOfClass, shortestOf } from "./levels.js";
import { lastAtMost } from "./marks.js";

export const GRID_COLUMNS = 4096;
export const GRID_ROWS = 320;
/** Blocks up to this many columns long are in the grid. Longer ones are drawn with sharp edges. */
const LONGEST = 32;
/** The width, in columns or pixels, of a block without any duration. */
export const LEAST_WIDTH = 0.05;
/** With fewer blocks in view than this, drawing each one is as fast. */
const WORTH_IT = 25000;

/** The widest columns: a grid of them is 4 times as long as the axis, which lies in its first quarter. */
const COARSEST = -2;

/**
 * Returns the grid that a view of `width` pixels needs.
 * @param {View} view
 * @param {Axis} axis
 * @param {number} width
 */
export function gridPlace(view, axis, width) {
    const span = view.x1 - view.x0;
    const whole = axis.length / GRID_COLUMNS; // a column of the grid that is as long as the axis
    const wanted = Math.max((span / width) * 1.34, span / (0.75 * GRID_COLUMNS));
    const level = Math.max(COARSEST, Math.ceil(Math.log2(whole / wanted)));
    const unit = whole / 2 ** level;
    // Begins at a quarter of its length, so that any view up to three quarters of it fits inside.
    const quarter = unit * (GRID_COLUMNS / 4);
    const x0 = level <= 0 ? 0 : Math.floor(view.x0 / quarter) * quarter;
    const shortest = shortestOf(axis);
    const classes = Math.max(0, Math.min(CLASS_COUNT, 1 + Math.floor(Math.log2((unit * LONGEST) / shortest) + 1e-9)));
    return { unit, x0, x1: x0 + unit * GRID_COLUMNS, classes };
}

/**
 * True if there are enough blocks in view for a grid.
 * @param {GridPlace} place
 * @param {Levels} levels
 * @param {Run} run
 * @param {Axis} axis
 * @param {number} number
 * @param {View} view
 */
export function isGridWorthIt(place, levels, run, axis, number, view) {
    let blocks = 0;
    for (let c = 0; c < place.classes; c++) {
        const [first, end] = rangeOfClass(levels, run, axis, number, c, view.x0, view.x1);
        blocks += end - first;
    }
    return blocks > WORTH_IT;
}

/**
 * A cell: its ink, and the part of it that the ink covers, of MOST_WEIGHT. 0: no block is in it.
 * Inks are below 2^(16 - WEIGHT_BITS).
 */
const WEIGHT_BITS = 6;
export const MOST_WEIGHT = 2 ** WEIGHT_BITS - 1;

/**
 * @param {number} ink
 * @param {number} weight
 */
export function cellOf(ink, weight) {
    return (ink << WEIGHT_BITS) | weight;
}

/** @param {number} cell */
export function inkOfCell(cell) {
    return cell >>> WEIGHT_BITS;
}

/** @param {number} cell */
export function weightOfCell(cell) {
    return cell & MOST_WEIGHT;
}

/**
 * Returns the weight for a part of a cell. Faded blocks have none, so that others come before them.
 * @param {number} ink
 * @param {number} cover
 */
export function weightOf(ink, cover) {
    return ink === FADED ? 0 : Math.min(MOST_WEIGHT, Math.max(1, Math.round(cover * MOST_WEIGHT)));
}
const LEAST_COVER = 1e-30;

/** Columns that are open at a time. Longer blocks are not in the grid. */
const OPEN_COLUMNS = 64;

/**
 * The columns that are being added up. Blocks come in the order of allocation, so a column is complete once a block
 * begins after it.
 *
 * Invariant: of each open cell, covers[cell * inks + best[cell]] = most[cell], and none of its covers is above that.
 */
class Columns {
    /** @param {number} inks   their number */
    constructor(inks) {
        this.inks = inks;
        this.covers = new Float32Array(OPEN_COLUMNS * GRID_ROWS * inks);
        this.most = new Float32Array(OPEN_COLUMNS * GRID_ROWS);
        this.best = new Uint16Array(OPEN_COLUMNS * GRID_ROWS);
    }

    /**
     * Adds a rectangle, in columns and rows.
     * @param {number} left
     * @param {number} right
     * @param {number} bottom
     * @param {number} top
     * @param {number} ink
     */
    add(left, right, bottom, top, ink) {
        const { inks, covers, most, best } = this;
        const firstRow = Math.floor(bottom);
        const lastRow = Math.min(GRID_ROWS - 1, Math.floor(top));
        for (let column = Math.floor(left); column < right; column++) {
            const wide = (right < column + 1 ? right : column + 1) - (left > column ? left : column);
            let cell = (column % OPEN_COLUMNS) * GRID_ROWS + firstRow;
            for (let row = firstRow; row <= lastRow; row++, cell++) {
                const high = (top < row + 1 ? top : row + 1) - (bottom > row ? bottom : row);
                const cover = ink === FADED ? LEAST_COVER : (covers[cell * inks + ink] += wide * high);
                if (cover <= most[cell]) continue;
                most[cell] = cover;
                best[cell] = ink;
            }
        }
    }

    /**
     * Writes the cells of a column, and sets what was added up to 0.
     * @param {number} column
     * @param {Uint16Array} cells
     */
    close(column, cells) {
        const { inks, covers, most, best } = this;
        const first = (column % OPEN_COLUMNS) * GRID_ROWS;
        for (let row = 0; row < GRID_ROWS; row++) {
            const cover = most[first + row];
            if (cover === 0) continue;
            cells[row * GRID_COLUMNS + column] = cellOf(best[first + row], weightOf(best[first + row], cover));
        }
        covers.fill(0, first * inks, (first + GRID_ROWS) * inks);
        most.fill(0, first, first + GRID_ROWS);
    }
}

/**
 * Returns the first block that may reach into the grid.
 * @param {GridPlace} place
 * @param {Run} run
 * @param {Axis} axis
 * @param {number} number
 */
function firstBlock(place, run, axis, number) {
    const before = momentBefore(axis, number, place.x0 - place.unit * LONGEST);
    return lastAtMost(run.blocks.alloc, before) + 1;
}

/**
 * Returns a flag for each row of the grid: 1 if it is not empty.
 * @param {Uint16Array} cells
 */
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

/**
 * Returns the cells by row from the bottom, then by column, and a flag for each row that is not empty. A frame reads most
 * of the grid, so it is as small as its picture.
 * @param {GridPlace} place
 * @param {Levels} levels
 * @param {Run} run
 * @param {Axis} axis
 * @param {number} number
 * @param {Uint16Array} inks   by label
 * @param {number} inkCount   inks are below this
 * @returns {{cells: Uint16Array, filled: Uint8Array}}
 */
export function makeGrid(place, levels, run, axis, number, inks, inkCount) {
    const { count, alloc, free, low, size, label } = run.blocks;
    const { block: bytes } = run.sizes;
    const { classes } = levels;
    const xs = axis.xs[number];
    const cells = new Uint16Array(GRID_COLUMNS * GRID_ROWS);
    const columns = new Columns(inkCount);
    const perRow = GRID_ROWS / run.addressBytes;
    const perUnit = 1 / place.unit;
    let open = 0;
    for (let block = firstBlock(place, run, axis, number); block < count; block++) {
        if (classes[block] >= place.classes) continue;
        const begin = (xs[alloc[block]] - place.x0) * perUnit;
        if (begin >= GRID_COLUMNS) break;
        const left = Math.max(0, begin);
        const right = Math.min(GRID_COLUMNS, Math.max(left + LEAST_WIDTH, (xs[free[block]] - place.x0) * perUnit));
        while (open < Math.floor(left)) columns.close(open++, cells);
        const bottom = low[block] * perRow;
        columns.add(left, right, bottom, bottom + bytes[size[block]] * perRow, inks[label[block]]);
    }
    while (open < GRID_COLUMNS) columns.close(open++, cells);
    return { cells, filled: filledRows(cells) };
}
