/**
 * Inks: what a pixel of the address map shows. One ink a pixel, never a mixture, so a colour of the map is one of the legend.
 *
 * @typedef {{r: number, g: number, b: number}} Channels
 */

export const UNMAPPED = 0;
export const CACHED = 1;
/** Blocks without emphasis, while others have it. Any other block of a pixel comes before them. */
export const FADED = 2;
/** The ink of colour 0. */
export const FIRST_INK = 3;

/**
 * Returns the ink of blocks by label. With an emphasis, blocks of the other labels are faded.
 * @param {Run} run
 * @param {Mask} emphasis
 */
export function inksOfLabels(run, emphasis) {
    return Uint16Array.from(run.labels.color, (color, label) =>
        emphasis && !emphasis[label] ? FADED : FIRST_INK + color,
    );
}

/**
 * Returns a pixel, as ImageData has it in a word.
 * @param {Rgb} rgb
 */
export function wordOf([r, g, b]) {
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/**
 * Returns the pixel of each ink.
 * @param {CategoryColor[]} colors
 * @param {Theme} theme
 */
export function wordsOfInks(colors, theme) {
    const own = [theme.backgroundRgb, theme.cachedRgb, theme.fadedRgb];
    return Uint32Array.from([...own, ...colors.map(({ rgb }) => rgb)], wordOf);
}
