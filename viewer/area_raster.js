/**
 * The stacked area as pixels. Each column of pixels is a bucket of events and shows the composition at the highest of
 * its moments, so a peak that lasted for one event is there at every zoom.
 */
import { momentBefore } from "./axis.js";
import { compositionAt, findHighest } from "./composition.js";
import { isHatchLine } from "./colors.js";

/**
 * The highest moment of each column, and what was live then.
 * @returns {{moments: Int32Array, bytes: Float64Array, compositions: Float64Array}} by column; of compositions,
 *   [column * categories + c]
 */
export function columnsOfView(run, number, axis, view, peakIndex, width) {
    const categories = run.memory.categoryCount;
    const columns = {
        moments: new Int32Array(width),
        bytes: new Float64Array(width),
        compositions: new Float64Array(width * categories),
    };
    const pixel = (view.x1 - view.x0) / width;
    const end = axis.xs[number].at(-1);
    let before = momentBefore(axis, number, view.x0);
    for (let x = 0; x < width; x++) {
        const last = momentBefore(axis, number, view.x0 + (x + 1) * pixel);
        columns.moments[x] = -1;
        if (view.x0 + x * pixel > end) continue; // this run is over, the other is not
        const found = findHighest(run.memory, peakIndex, before, last);
        columns.moments[x] = found.moment;
        columns.bytes[x] = found.bytes;
        const out = columns.compositions.subarray(x * categories, (x + 1) * categories);
        compositionAt(run.memory, found.moment, out);
        before = last;
    }
    return columns;
}

/** The colours as they are painted: channels, and as words the colour and the hatch's. */
function wordsOf(colors) {
    return colors.map(({ rgb, hatch }) => ({ rgb, hatch, plain: word(...rgb), line: word(...(hatch ?? rgb)) }));
}

function word(r, g, b) {
    return (255 << 24) | (b << 16) | (g << 8) | r;
}

/** Fills one column from `y` (not whole) upwards by `high` pixels; the pixels at both ends are mixed. */
function fillPart(picture, pixels, x, y, high, color) {
    const { width } = picture;
    const { plain, line } = color;
    const top = y - high;
    const firstWhole = Math.ceil(top);
    const endWhole = Math.floor(y);
    const hatched = color.hatch !== null && color.hatch !== undefined;
    for (let row = Math.max(0, firstWhole), at = row * width + x; row < endWhole; row++, at += width)
        pixels[at] = hatched && isHatchLine(x, row) ? line : plain;
    if (firstWhole > top) mixPixel(pixels, (firstWhole - 1) * width + x, color.rgb, Math.min(high, firstWhole - top));
    if (endWhole < y && endWhole >= firstWhole) mixPixel(pixels, endWhole * width + x, color.rgb, y - endWhole);
}

function mixPixel(pixels, at, [r, g, b], part) {
    if (at < 0) return;
    const below = pixels[at];
    const mix = (color, under) => Math.round(color * part + under * (1 - part));
    pixels[at] = word(mix(r, below & 255), mix(g, (below >>> 8) & 255), mix(b, (below >>> 16) & 255));
}

/**
 * Paints the columns, category over category.
 * @param {Object} picture   width, height, colors, stack, theme, top: the bytes at the upper edge, wanted: 1 for
 *   what is shown
 */
export function rasterArea(picture, columns, pixels) {
    const { width, height, stack, theme, top, wanted } = picture;
    const colors = wordsOf(picture.colors);
    pixels.fill(word(...theme.backgroundRgb));
    const categories = colors.length;
    for (let x = 0; x < width; x++) {
        let y = height;
        for (const c of stack) {
            const bytes = columns.compositions[x * categories + c];
            if (!wanted[c] || bytes === 0) continue;
            const high = (bytes / top) * height;
            fillPart(picture, pixels, x, y, high, colors[c]);
            y -= high;
        }
    }
}

/** Paints second less first: what the second has more of grows up from the middle, what it has less of, down. */
export function rasterDifference(picture, first, second, pixels) {
    const { width, height, stack, theme, top, wanted } = picture;
    const colors = wordsOf(picture.colors);
    pixels.fill(word(...theme.backgroundRgb));
    const categories = colors.length;
    const zero = Math.floor(height / 2);
    for (let x = 0; x < width; x++) {
        let above = zero;
        let below = zero;
        for (const c of stack) {
            const bytes = second.compositions[x * categories + c] - first.compositions[x * categories + c];
            if (!wanted[c] || bytes === 0) continue;
            const high = (Math.abs(bytes) / top) * zero;
            if (bytes > 0) {
                fillPart(picture, pixels, x, above, high, colors[c]);
                above -= high;
            } else {
                fillPart(picture, pixels, x, below + high, high, colors[c]);
                below += high;
            }
        }
    }
}

/** The largest sum of increases, or of decreases, of any column. */
export function largestDifference(first, second, categories, wanted) {
    let largest = 0;
    for (let x = 0; x * categories < first.compositions.length; x++) {
        let more = 0;
        let less = 0;
        for (let c = 0; c < categories; c++) {
            const bytes = wanted[c]
                ? second.compositions[x * categories + c] - first.compositions[x * categories + c]
                : 0;
            if (bytes > 0) more += bytes;
            else less -= bytes;
        }
        largest = Math.max(largest, more, less);
    }
    return largest;
}
