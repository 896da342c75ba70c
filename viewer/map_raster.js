/**
 * The address map as pixels. A pixel's colour is the mean of what lies in it: every block adds its colour by the part of
 * the pixel that it covers, and since blocks never overlap, the parts add up to at most one. So nothing is lost at any
 * zoom, and a pixel with a thousand blocks shows their mixture instead of whichever came last.
 */
import { CLASS_COUNT, GRID_COLUMNS, GRID_ROWS, rangeOfClass } from "./levels.js";
import { HATCH_PERIOD } from "./colors.js";

/** Smallest sides, in pixels, of a block that gets an edge of its own. */
const EDGED = 4;
/** What lives for no time at all is given this part of a pixel, once it is drawn by itself. */
const LEAST_WIDTH = 0.3;

/** Reused between frames: clearing is cheaper than allocating. */
let sums = new Float32Array(0);

function clearSums(width, height) {
    const count = width * height * 4;
    if (sums.length !== count) sums = new Float32Array(count);
    else sums.fill(0);
}

/** Adds a colour to a rectangle of pixels, whose sides need not be whole. */
function addRectangle(width, height, left, right, top, bottom, r, g, b, a) {
    if (left < 0) left = 0;
    if (top < 0) top = 0;
    if (right > width) right = width;
    if (bottom > height) bottom = height;
    if (right <= left || bottom <= top) return;
    const firstX = left | 0, firstY = top | 0;
    const endX = Math.ceil(right), endY = Math.ceil(bottom);
    for (let y = firstY; y < endY; y++) {
        const inY = (bottom < y + 1 ? bottom : y + 1) - (top > y ? top : y);
        let at = (y * width + firstX) * 4;
        for (let x = firstX; x < endX; x++, at += 4) {
            const part = inY * ((right < x + 1 ? right : x + 1) - (left > x ? left : x));
            sums[at] += r * part;
            sums[at + 1] += g * part;
            sums[at + 2] += b * part;
            sums[at + 3] += a * part;
        }
    }
}

/** The grid of class 0, one column of pixels after the other, taking the mean of the columns and rows in each. */
function addGrid(picture, grid) {
    const { width, height, view, axis, run } = picture;
    const columnsPerPixel = ((view.x1 - view.x0) / axis.length / width) * GRID_COLUMNS;
    const firstColumn = (view.x0 / axis.length) * GRID_COLUMNS;
    const rowsPerPixel = ((view.high - view.low) / run.addressBytes / height) * GRID_ROWS;
    const topRow = (view.high / run.addressBytes) * GRID_ROWS;
    for (let x = 0; x < width; x++) {
        const begin = firstColumn + x * columnsPerPixel;
        const first = Math.floor(begin);
        const last = Math.min(GRID_COLUMNS - 1, Math.max(first, Math.ceil(begin + columnsPerPixel) - 1));
        const share = 1 / (last - first + 1);
        for (let y = 0; y < height; y++) {
            const row = Math.min(GRID_ROWS - 1, Math.max(0, Math.floor(topRow - (y + 0.5) * rowsPerPixel)));
            const at = (y * width + x) * 4;
            for (let column = first; column <= last; column++) {
                const from = (column * GRID_ROWS + row) * 4;
                if (grid[from + 3] === 0) continue;
                sums[at] += grid[from] * share;
                sums[at + 1] += grid[from + 1] * share;
                sums[at + 2] += grid[from + 2] * share;
                sums[at + 3] += grid[from + 3] * share;
            }
        }
    }
}

/** Adds the blocks of a class, and puts those large enough to be told apart into `large`. */
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
        const r = paint[from], g = paint[from + 1], b = paint[from + 2], a = paint[from + 3];
        addRectangle(width, height, left, right, top, bottom, r, g, b, a);
        if (bottom - top < EDGED || right - left < EDGED) continue;
        addRectangle(width, height, left, left + 1, top, bottom, -r * 0.3, -g * 0.3, -b * 0.3, 0);
        addRectangle(width, height, left + 1, right, top, top + 1, -r * 0.3, -g * 0.3, -b * 0.3, 0);
        large.push(block);
    }
}

/** Where segments are, as the colour of memory that is reserved and not used. */
function paintSegments(picture, pixels) {
    const { width, height, view, axis, run, number, theme } = picture;
    const xs = axis.xs[number];
    const { count, low, bytes, mapped, life } = run.segments;
    const cached = packed(theme.cachedRgb);
    pixels.fill(packed(theme.backgroundRgb));
    for (let i = 0; i < count; i++) {
        const top = Math.max(0, Math.round(((view.high - low[i] - bytes[i]) / (view.high - view.low)) * height));
        const bottom = Math.min(height, Math.round(((view.high - low[i]) / (view.high - view.low)) * height));
        const x = (event) => Math.round(((xs[event] - view.x0) / (view.x1 - view.x0)) * width);
        const left = Math.max(0, x(mapped[i]));
        const right = Math.min(width, x(life[i] > 0 ? mapped[i] + life[i] : run.eventCount));
        if (right > left) for (let y = top; y < bottom; y++) pixels.fill(cached, y * width + left, y * width + right);
    }
}

function packed([r, g, b]) {
    return (255 << 24) | (b << 16) | (g << 8) | r;
}

/** Lays the sums over the pixels. */
function blend(pixels) {
    for (let i = 0, at = 0; i < pixels.length; i++, at += 4) {
        let a = sums[at + 3];
        if (a === 0) continue;
        const scale = a > 1 ? 1 / a : 1; // widened blocks may add up to more than there is
        const under = a < 1 ? 1 - a : 0;
        const below = pixels[i];
        const r = sums[at] * scale + (below & 255) * under;
        const g = sums[at + 1] * scale + ((below >>> 8) & 255) * under;
        const b = sums[at + 2] * scale + ((below >>> 16) & 255) * under;
        pixels[i] = (255 << 24) | (b << 16) | (g << 8) | r;
    }
}

/** Hatches a block of a hatched category, where it is large enough for it to be seen. */
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
    const top = Math.max(0, Math.ceil((view.high - run.blocks.low[block] - run.sizes.block[run.blocks.size[block]]) * perByte));
    const color = packed(hatch);
    for (let y = top; y < bottom; y++)
        for (let x = left + ((HATCH_PERIOD * 2 - ((left + y) % HATCH_PERIOD)) % HATCH_PERIOD); x < right; x += HATCH_PERIOD) {
            pixels[y * width + x] = color;
            if (x + 1 < right) pixels[y * width + x + 1] = color;
        }
}

/**
 * Paints the blocks and segments of a view into `pixels`, 32 bits each.
 * @param {Object} picture   width, height, view, axis, run, its number, levels, grid() for class 0, paint and hatches by
 *                           label, theme
 * @returns {number[]} the blocks that are large enough to be written on
 */
export function rasterMap(picture, pixels) {
    const { width, height, view, levels } = picture;
    const large = [];
    clearSums(width, height);
    const pixel = (view.x1 - view.x0) / width;
    const gridServes = pixel >= levels.unit && (view.high - view.low) / height >= picture.run.addressBytes / GRID_ROWS / 4;
    if (gridServes) addGrid(picture, picture.grid());
    for (let c = gridServes ? 1 : 0; c < CLASS_COUNT; c++) addClass(picture, c, large);
    paintSegments(picture, pixels);
    blend(pixels);
    for (const block of large) hatchBlock(picture, pixels, block);
    return large;
}
