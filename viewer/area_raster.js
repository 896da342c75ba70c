/**
 * The stacked area as pixels. Each column of pixels is a bucket of events and shows the composition at the highest of
 * its moments. So a peak that lasted for one event is visible at every zoom.
 *
 * @typedef {Object} AreaColumns   the highest moment of each column, and the bytes by category at it
 * @property {Int32Array} moments
 * @property {Float64Array} bytes
 * @property {Float64Array} compositions   [column * categories + category]
 *
 * @typedef {Object} AreaPicture
 * @property {number} width
 * @property {number} height
 * @property {CategoryColor[]} colors
 * @property {number[]} stack   categories from the bottom up
 * @property {Theme} theme
 * @property {number} top   the bytes at the upper edge
 * @property {Uint32Array} [backgrounds]   by column, the pixel behind the stack; without it the theme's background
 *
 * @typedef {{r: number, g: number, b: number, hatch: number, plain: number, line: number}} PaintWords   channels, and the
 *   words of a colour and of its hatch
 */
import { AFTER_ALL, momentBefore } from "./axis.js";
import { compositionAt, findHighest } from "./composition.js";
import { isHatchLine } from "./colors.js";
import { wordOf } from "./inks.js";
import { lastOf } from "./marks.js";

/**
 * Returns the highest moment of each column, and the bytes by category at it.
 * @param {Run} run
 * @param {{memory: Memory, peakIndex: PeakIndex}} shown
 * @param {number} number
 * @param {Axis} axis
 * @param {View} view
 * @param {number} width
 * @returns {AreaColumns}
 */
export function columnsOfView(run, { memory, peakIndex }, number, axis, view, width) {
    const categories = memory.categoryCount;
    const columns = {
        moments: new Int32Array(width),
        bytes: new Float64Array(width),
        compositions: new Float64Array(width * categories),
    };
    const pixel = (view.x1 - view.x0) / width;
    const end = lastOf(axis.xs[number]);
    const reachesEnd = view.x1 >= axis.length; // the last event may lie on the right edge
    let before = momentBefore(axis, number, view.x0);
    for (let x = 0; x < width; x++) {
        const isAll = reachesEnd && x + 1 === width;
        const last = isAll ? run.eventCount - 1 : momentBefore(axis, number, view.x0 + (x + 1) * pixel, before);
        columns.moments[x] = AFTER_ALL;
        if (view.x0 + x * pixel > end) continue; // this run is over; the other one is not
        const found = findHighest(memory, peakIndex, before, last);
        columns.moments[x] = found.moment;
        columns.bytes[x] = found.bytes;
        compositionAt(memory, found.moment, columns.compositions, x * categories);
        before = last;
    }
    return columns;
}

/**
 * Returns the colours for painting: channels, and the words of the colour and of its hatch.
 * @param {CategoryColor[]} colors
 */
function wordsOf(colors) {
    return colors.map(({ rgb, line, hatch }) => ({
        r: rgb[0],
        g: rgb[1],
        b: rgb[2],
        hatch,
        plain: wordOf(rgb),
        line: wordOf(line),
    }));
}

/**
 * Fills one column from `y` upwards by `high` pixels. Neither is an integer; the pixels at both ends are mixed.
 * @param {Uint32Array} pixels
 * @param {number} width
 * @param {number} x
 * @param {number} y
 * @param {number} high
 * @param {PaintWords} color
 */
function fillPart(pixels, width, x, y, high, color) {
    const top = y - high;
    const firstWhole = Math.ceil(top);
    const endWhole = Math.floor(y);
    const begin = Math.max(0, firstWhole);
    if (color.hatch) fillHatched(pixels, width, x, begin, endWhole, color);
    else for (let at = begin * width + x, end = endWhole * width; at < end; at += width) pixels[at] = color.plain;
    if (firstWhole > top) mixPixel(pixels, (firstWhole - 1) * width + x, color, Math.min(high, firstWhole - top));
    if (endWhole < y && endWhole >= firstWhole) mixPixel(pixels, endWhole * width + x, color, y - endWhole);
}

/**
 * @param {Uint32Array} pixels
 * @param {number} width
 * @param {number} x
 * @param {number} begin
 * @param {number} end
 * @param {PaintWords} color
 */
function fillHatched(pixels, width, x, begin, end, { hatch, plain, line }) {
    for (let row = begin, at = row * width + x; row < end; row++, at += width)
        pixels[at] = isHatchLine(hatch, x, row) ? line : plain;
}

/**
 * Mixes a share of a colour, from 0 to 1, over a pixel.
 * @param {Uint32Array} pixels
 * @param {number} at
 * @param {PaintWords} color
 * @param {number} part
 */
function mixPixel(pixels, at, color, part) {
    if (at < 0) return;
    const below = pixels[at];
    const rest = 1 - part;
    // Rounds to the nearest integer.
    const r = color.r * part + (below & 255) * rest + 0.5;
    const g = color.g * part + ((below >>> 8) & 255) * rest + 0.5;
    const b = color.b * part + ((below >>> 16) & 255) * rest + 0.5;
    pixels[at] = (255 << 24) | (b << 16) | (g << 8) | r;
}

/**
 * Paints the columns, one category above the other.
 * @param {AreaPicture} picture
 * @param {AreaColumns} columns
 * @param {Uint32Array} pixels
 */
export function rasterArea(picture, columns, pixels) {
    const { width, height, stack, theme, top, backgrounds } = picture;
    const colors = wordsOf(picture.colors);
    if (backgrounds) for (let row = 0; row < height; row++) pixels.set(backgrounds, row * width);
    else pixels.fill(wordOf(theme.backgroundRgb));
    const categories = colors.length;
    for (let x = 0; x < width; x++) {
        let y = height;
        for (const c of stack) {
            const bytes = columns.compositions[x * categories + c];
            if (bytes === 0) continue;
            const high = (bytes / top) * height;
            fillPart(pixels, width, x, y, high, colors[c]);
            y -= high;
        }
    }
}

/**
 * Paints second minus first: increases grow up from the middle, decreases down.
 * @param {AreaPicture} picture
 * @param {AreaColumns} first
 * @param {AreaColumns} second
 * @param {Uint32Array} pixels
 */
export function rasterDifference(picture, first, second, pixels) {
    const { width, height, stack, theme, top } = picture;
    const colors = wordsOf(picture.colors);
    pixels.fill(wordOf(theme.backgroundRgb));
    const categories = colors.length;
    const zero = Math.floor(height / 2);
    for (let x = 0; x < width; x++) {
        let above = zero;
        let below = zero;
        for (const c of stack) {
            const bytes = second.compositions[x * categories + c] - first.compositions[x * categories + c];
            if (bytes === 0) continue;
            const high = (Math.abs(bytes) / top) * zero;
            if (bytes > 0) {
                fillPart(pixels, width, x, above, high, colors[c]);
                above -= high;
            } else {
                fillPart(pixels, width, x, below + high, high, colors[c]);
                below += high;
            }
        }
    }
}

/**
 * Returns the largest sum of increases, or of decreases, in any column.
 * @param {AreaColumns} first
 * @param {AreaColumns} second
 * @param {number} categories
 */
export function largestDifference(first, second, categories) {
    let largest = 0;
    for (let x = 0; x * categories < first.compositions.length; x++) {
        let more = 0;
        let less = 0;
        for (let c = 0; c < categories; c++) {
            const bytes = second.compositions[x * categories + c] - first.compositions[x * categories + c];
            if (bytes > 0) more += bytes;
            else less -= bytes;
        }
        largest = Math.max(largest, more, less);
    }
    return largest;
}
