/**
 * The address map as pixels. The colour of a pixel is the mean of its contents: each block adds its colour, weighted by
 * the part of the pixel that it covers. Blocks never overlap, so these parts add up to at most one. So nothing is lost
 * at any zoom, and a pixel with a thousand blocks shows their mixture.
 *
 * Blocks are not filled. A block adds its colour at its left edge in each row of pixels, and subtracts it at its right
 * edge. Running sums over the row then give every pixel. So the cost of a block does not depend on its width. Integers
 * keep the sums exact.
 */
import { HATCH_PERIOD } from "./colors.js";
import { GRID_ROWS, gridColumns, gridPlace, gridRows, isGridWorthIt, isRowFilled, sampleGrid } from "./grid.js";
import { CLASS_COUNT, rangeOfClass } from "./levels.js";

/** The smallest sides, in pixels, of a block that gets an edge of its own. */
const EDGED = 4;
/** The width, in pixels, of a block without any duration that is drawn by itself. */
const LEAST_WIDTH = 0.3;
/** The unit of sums: a whole pixel of a channel at full brightness is 255 * ONE. */
const ONE = 4096;

/** The changes from pixel to pixel: red, green, blue, coverage. Between two pictures all are 0. */
let changes = new Int32Array(0);
/** By pixel, 1 if something changes, also below the blocks. Pixels between two marks are equal. */
let marks = new Uint8Array(0);
/** The same memory, four pixels at a time. */
let fourMarks = new Uint32Array(0);

/** Returns the number of pixels in a row of changes: at least two more than are visible, and a multiple of four. */
function changesInRow(width) {
    return (width + 5) & ~3;
}

function prepareChanges(width, height) {
    const count = changesInRow(width) * height;
    if (marks.length === count) return;
    changes = new Int32Array(count * 4);
    marks = new Uint8Array(count);
    fourMarks = new Uint32Array(marks.buffer);
}

/** Adds a colour from x on; with sign -1, subtracts it. x need not be an integer. */
function addEdge(row, x, sign, r, g, b, a) {
    const pixel = x | 0;
    const later = x - pixel; // the part that belongs to the next pixel
    const at = (row + pixel) * 4;
    const r1 = (r * later) | 0,
        g1 = (g * later) | 0,
        b1 = (b * later) | 0,
        a1 = (a * later) | 0;
    changes[at] += sign * (r - r1);
    changes[at + 1] += sign * (g - g1);
    changes[at + 2] += sign * (b - b1);
    changes[at + 3] += sign * (a - a1);
    changes[at + 4] += sign * r1;
    changes[at + 5] += sign * g1;
    changes[at + 6] += sign * b1;
    changes[at + 7] += sign * a1;
    marks[row + pixel] = 1;
    marks[row + pixel + 1] = 1;
}

/** Adds a part of a colour to one pixel. In a wide view, most blocks are narrower than a pixel. */
function addInPixel(pixel, part, r, g, b, a) {
    const at = pixel * 4;
    const rp = (r * part) | 0,
        gp = (g * part) | 0,
        bp = (b * part) | 0,
        ap = (a * part) | 0;
    changes[at] += rp;
    changes[at + 1] += gp;
    changes[at + 2] += bp;
    changes[at + 3] += ap;
    changes[at + 4] -= rp;
    changes[at + 5] -= gp;
    changes[at + 6] -= bp;
    changes[at + 7] -= ap;
    marks[pixel] = 1;
    marks[pixel + 1] = 1;
}

/** Adds a colour to a rectangle of pixels, whose sides need not be integers. */
function addRectangle(width, height, left, right, top, bottom, r, g, b, a) {
    if (left < 0) left = 0;
    if (top < 0) top = 0;
    if (right > width) right = width;
    if (bottom > height) bottom = height;
    if (right <= left || bottom <= top) return;
    const endY = Math.ceil(bottom);
    const stride = changesInRow(width);
    for (let y = top | 0; y < endY; y++) {
        const part = ((bottom < y + 1 ? bottom : y + 1) - (top > y ? top : y)) * ONE;
        const row = y * stride;
        if ((left | 0) === (right | 0)) {
            addInPixel(row + (left | 0), (right - left) * part, r, g, b, a);
            continue;
        }
        const rp = (r * part) | 0,
            gp = (g * part) | 0,
            bp = (b * part) | 0,
            ap = (a * part) | 0;
        addEdge(row, left, 1, rp, gp, bp, ap);
        addEdge(row, right, -1, rp, gp, bp, ap);
    }
}

/** Adds the blocks of a class, and appends to `large` those with edges of their own. */
function addClass(picture, c, large) {
    const { width, height, view, axis, run, number, levels, paint } = picture;
    const { alloc, free, low, size, label } = run.blocks;
    const bytes = run.sizes.block;
    const xs = axis.xs[number];
    const perX = width / (view.x1 - view.x0);
    const perByte = height / (view.high - view.low);
    const [first, end] = rangeOfClass(levels, run, axis, number, c, view.x0, view.x1);
    for (let i = first; i < end; i++) {
        const block = levels.order[i];
        const bottom = (view.high - low[block]) * perByte;
        const top = bottom - bytes[size[block]] * perByte;
        if (bottom <= 0 || top >= height) continue;
        const left = (xs[alloc[block]] - view.x0) * perX;
        let right = (xs[free[block]] - view.x0) * perX;
        if (right - left < LEAST_WIDTH) right = left + LEAST_WIDTH;
        if (right <= 0 || left >= width) continue;
        const from = label[block] * 4;
        const r = paint[from],
            g = paint[from + 1],
            b = paint[from + 2],
            a = paint[from + 3];
        addRectangle(width, height, left, right, top, bottom, r, g, b, a);
        if (bottom - top < EDGED || right - left < EDGED) continue;
        addRectangle(width, height, left, left + 1, top, bottom, -r * 0.3, -g * 0.3, -b * 0.3, 0);
        addRectangle(width, height, left + 1, right, top, top + 1, -r * 0.3, -g * 0.3, -b * 0.3, 0);
        large.push(block);
    }
}

/** Paints the memory of segments in the colour of reserved memory that is not used. */
function paintSegments(picture, pixels) {
    const { width, height, view, axis, run, number, theme } = picture;
    const xs = axis.xs[number];
    const { count, low, bytes, mapped, life } = run.parts;
    const cached = packed(theme.cachedRgb);
    const stride = changesInRow(width);
    pixels.fill(packed(theme.backgroundRgb));
    for (let i = 0; i < count; i++) {
        const top = Math.max(0, Math.round(((view.high - low[i] - bytes[i]) / (view.high - view.low)) * height));
        const bottom = Math.min(height, Math.round(((view.high - low[i]) / (view.high - view.low)) * height));
        const x = (event) => Math.round(((xs[event] - view.x0) / (view.x1 - view.x0)) * width);
        const left = Math.max(0, x(mapped[i]));
        const right = Math.min(width, x(life[i] > 0 ? mapped[i] + life[i] : run.eventCount));
        if (right <= left) continue;
        for (let y = top; y < bottom; y++) {
            pixels.fill(cached, y * width + left, y * width + right);
            marks[y * stride + left] = 1;
            marks[y * stride + right] = 1;
        }
    }
}

function packed([r, g, b]) {
    return (255 << 24) | (b << 16) | (g << 8) | r;
}

/** Returns a pixel with a colour over it, premultiplied in units of ONE. */
function over(below, r, g, b, cover) {
    // Blocks that were widened to be visible may add up to more than a pixel.
    const scale = 1 / (cover > ONE ? cover : ONE);
    const under = cover < ONE ? 1 - cover / ONE : 0;
    return (
        (255 << 24) |
        ((b * scale + ((below >>> 16) & 255) * under) << 16) |
        ((g * scale + ((below >>> 8) & 255) * under) << 8) |
        (r * scale + (below & 255) * under)
    );
}

/**
 * Returns a pixel with a cell of the grid over it. Multiplies two channels at once, with correct rounding of 255ths.
 */
function cellOver(below, cell) {
    const under = 255 - (cell >>> 24);
    const even = Math.imul(below & 0xff00ff, under) + 0x800080;
    const odd = Math.imul((below >>> 8) & 0xff, under) + 0x80;
    return (
        ((255 << 24) | (cell & 0xffffff)) +
        (((even + ((even >>> 8) & 0xff00ff)) >>> 8) & 0xff00ff) +
        ((odd + (odd >>> 8)) & 0xff00)
    );
}

/** Paints the samples of the grid from `s` on over pixels. */
function laySampled(pixels, from, end, sampled, s) {
    for (let at = from; at < end; at++, s++) {
        const cell = sampled[s];
        if (cell >= 0xff000000) pixels[at] = cell;
        else if (cell !== 0) pixels[at] = cellOver(pixels[at], cell);
    }
}

/** Paints the same, together with a colour that all pixels share. */
function layRow(pixels, from, end, sampled, s, r, g, b, a) {
    for (let at = from; at < end; at++, s++) {
        const cell = sampled[s];
        const cover = a + (cell >>> 24) * (ONE / 255);
        if (cover < 1) continue;
        pixels[at] = over(
            pixels[at],
            r + (cell & 255) * ONE,
            g + ((cell >>> 8) & 255) * ONE,
            b + ((cell >>> 16) & 255) * ONE,
            cover,
        );
    }
}

/** Paints a colour over pixels that are equal. */
function layPlain(pixels, from, end, r, g, b, a) {
    if (a === 0) return;
    const color = over(pixels[from], r, g, b, a);
    if (end - from > LONG_RUN) pixels.fill(color, from, end);
    else while (from < end) pixels[from++] = color;
}

/** The number of pixels from which a call to fill them is faster. */
const LONG_RUN = 24;

/** Returns the first mark from `at` on. */
function nextMark(at) {
    for (; (at & 3) !== 0; at++) if (marks[at] !== 0) return at;
    while (fourMarks[at >> 2] === 0) at += 4;
    while (marks[at] === 0) at++;
    return at;
}

/**
 * Sums up the changes of a row, and paints them over its pixels, with the samples of the grid if there are any. Sets
 * all changes and marks to 0.
 */
function blendRow(pixels, begin, row, width, sampled) {
    let r = 0,
        g = 0,
        b = 0,
        a = 0;
    const end = row + width;
    marks[end] = 1;
    for (let from = row; from < end;) {
        const at = from * 4;
        r += changes[at];
        g += changes[at + 1];
        b += changes[at + 2];
        a += changes[at + 3];
        changes[at] = changes[at + 1] = changes[at + 2] = changes[at + 3] = 0;
        marks[from] = 0;
        const next = nextMark(from + 1);
        const pixel = begin + from - row;
        if (!sampled) layPlain(pixels, pixel, begin + next - row, r, g, b, a);
        else if (a === 0) laySampled(pixels, pixel, begin + next - row, sampled, from - row);
        else layRow(pixels, pixel, begin + next - row, sampled, from - row, r, g, b, a);
        from = next;
    }
    changes.fill(0, end * 4, (end + 2) * 4);
    marks[end] = marks[end + 1] = 0;
}

/** Sums up each row of changes, adds the grid's samples if there is a grid, and paints it over the pixels. */
function blend(picture, served, pixels) {
    const { width, height, view, run } = picture;
    const rows = served ? gridRows(view, run, height) : null;
    const columns = served ? gridColumns(served.place, view, width) : null;
    const sampled = new Uint32Array(width);
    const stride = changesInRow(width);
    let sampledRow = -1;
    for (let y = 0; y < height; y++) {
        const filled = rows !== null && isRowFilled(served.cells, rows[y]);
        // In an enlarged view, several rows of pixels have the same row of the grid.
        if (filled && rows[y] !== sampledRow) sampleGrid(served.cells, columns, (sampledRow = rows[y]), sampled);
        blendRow(pixels, y * width, y * stride, width, filled ? sampled : null);
    }
}

/** Hatches a block of a hatched category, if it is large enough for that. */
function hatchBlock(picture, pixels, block) {
    const { width, height, view, axis, run, number, hatches } = picture;
    const hatch = hatches[run.blocks.label[block]];
    if (!hatch) return;
    const xs = axis.xs[number];
    const perX = width / (view.x1 - view.x0);
    const perByte = height / (view.high - view.low);
    const left = Math.max(0, Math.ceil((xs[run.blocks.alloc[block]] - view.x0) * perX));
    const right = Math.min(width, Math.floor((xs[run.blocks.free[block]] - view.x0) * perX));
    const bottom = Math.min(height, Math.floor((view.high - run.blocks.low[block]) * perByte));
    const top = Math.max(
        0,
        Math.ceil((view.high - run.blocks.low[block] - run.sizes.block[run.blocks.size[block]]) * perByte),
    );
    const color = packed(hatch);
    for (let y = top; y < bottom; y++)
        for (
            let x = left + ((HATCH_PERIOD * 2 - ((left + y) % HATCH_PERIOD)) % HATCH_PERIOD);
            x < right;
            x += HATCH_PERIOD
        ) {
            pixels[y * width + x] = color;
            if (x + 1 < right) pixels[y * width + x + 1] = color;
        }
}

/** The grid is too coarse for views in which its rows are taller than this, in pixels. */
const TALLEST_ROW = 4; // pixels

/**
 * Paints the blocks and segments of a view into `pixels`, 32 bits each.
 * @param {Object} picture   width, height, view, axis, run, its number, levels, grid(place), theme, and by label paint
 *   and hatches
 * @returns {number[]} the blocks that are large enough for text
 */
export function rasterMap(picture, pixels) {
    const { width, height, view, axis, run, number, levels } = picture;
    const large = [];
    prepareChanges(width, height);
    const place = gridPlace(view, axis, width);
    const rowPixels = (run.addressBytes / GRID_ROWS / (view.high - view.low)) * height;
    const serves = rowPixels <= TALLEST_ROW && isGridWorthIt(place, levels, run, axis, number, view);
    const served = serves ? { place, cells: picture.grid(place) } : null;
    for (let c = served ? place.classes : 0; c < CLASS_COUNT; c++) addClass(picture, c, large);
    paintSegments(picture, pixels);
    blend(picture, served, pixels);
    for (const block of large) hatchBlock(picture, pixels, block);
    return large;
}
