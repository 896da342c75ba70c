/**
 * The colours of categories. Two categories differ in their colour by at least 15 (CIEDE2000), as people see it with any
 * colour vision, or else one of them is hatched and the other is not; so do cached and unmapped memory. Seen with three
 * kinds of cones, hatched ones differ from the plain ones by as much, too. tests/viewer/colors.test.mjs checks it.
 *
 * The categories that fill most memory are plain.
 */
import { contextOf } from "./dom.js";

/** A colour, and its lines: edges and hatching. A line is nearer to its colour than to any other one. */
const PLAIN = [
    ["#3394fa", "#2976c8"],
    ["#a23519", "#63200f"],
    ["#f3ac48", "#f8cc8f"],
    ["#9d937b", "#89806b"],
    ["#687273", "#525a5b"],
    ["#939aa1", "#adb2b8"],
    ["#5c2887", "#441e64"],
    ["#6ae8aa", "#53b585"],
    ["#c46a2a", "#cf8652"],
    ["#7b629d", "#8d78ab"],
];
const HATCHED = [
    ["#96a348", "#7e893c"],
    ["#0f9f9d", "#0b7977"],
    ["#827ce8", "#a9a5ef"],
    ["#eaacfb", "#f4d4fd"],
    ["#567900", "#344900"],
    ["#a26071", "#7e4b58"],
    ["#304c82", "#4b6392"],
];

/** How lines lie. */
const NO_HATCH = 0,
    RISING = 1,
    FALLING = 2,
    CROSSED = 3,
    UPRIGHT = 4,
    LEVEL = 5;
/** Those of categories that programs name: so many times all colours. */
const OF_OTHERS = [FALLING, CROSSED, UPRIGHT];

/** The width and height, in pixels, after which hatching repeats. */
export const HATCH_PERIOD = 7;
/** @param {number} at */
const isOnLine = (at) => at % HATCH_PERIOD < 2;

/**
 * By hatch, true if it has a line at a pixel. All pictures use it, so that they match.
 * @type {((x: number, y: number) => boolean)[]}
 */
const HATCH_LINES = [
    () => false,
    (x, y) => isOnLine(x + y),
    (x, y) => isOnLine(x + (HATCH_PERIOD - 1) * y),
    (x, y) => isOnLine(x + y) || isOnLine(x + (HATCH_PERIOD - 1) * y),
    (x) => isOnLine(x),
    (x, y) => isOnLine(y),
];

/**
 * The colours of memtrace's own categories, in the order of the stack.
 * @type {Record<string, string[]>}
 */
const OWN = {
    Param: PLAIN[0],
    "Opt State": PLAIN[1],
    Gradient: PLAIN[2],
    Embed: HATCHED[0],
    Norm: PLAIN[3],
    Attn: HATCHED[1],
    AttnScores: PLAIN[4],
    AttnOut: PLAIN[5],
    Softmax: PLAIN[6],
    FFN: PLAIN[7],
    einsum: PLAIN[8],
    Block: PLAIN[9],
    Loss: HATCHED[2],
    Data: HATCHED[3],
    Workspace: HATCHED[4],
    Optimizer: HATCHED[5],
    Other: HATCHED[6],
};

/** The category of blocks without a label. The page adds it behind the trace's categories. */
export const UNLABELLED = "unlabelled";

/**
 * Returns the categories from the bottom of a stack to its top: long-lived memory below short-lived memory.
 * @param {string[]} categories
 */
export function stackOrder(categories) {
    const own = Object.keys(OWN);
    /** @param {string} name */
    const place = (name) => (own.includes(name) ? own.indexOf(name) : own.length);
    return categories.map((_, i) => i).sort((a, b) => place(categories[a]) - place(categories[b]) || a - b);
}

/** @param {string} hex */
export function channels(hex) {
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

/**
 * Returns a colour with a share of it over another one.
 * @param {Rgb} over
 * @param {Rgb} under
 * @param {number} share   from 0 to 1
 */
export function mixed(over, under, share) {
    return over.map((value, i) => Math.round(value * share + under[i] * (1 - share)));
}

/** @param {Rgb} rgb */
function luminance(rgb) {
    const [r, g, b] = rgb.map((value) => (value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/**
 * Returns the contrast of two colours, from 1 to 21 (WCAG 2.2, "contrast ratio").
 * @param {Rgb} first
 * @param {Rgb} second
 */
export function contrastOf(first, second) {
    const [low, high] = [luminance(first), luminance(second)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
}

/**
 * @param {string} name
 * @param {string[]} pair
 * @param {number} hatch
 */
function makeColor(name, [css, line], hatch) {
    const rgb = channels(css);
    const isDark = contrastOf(rgb, [255, 255, 255]) > contrastOf(rgb, [0, 0, 0]);
    return { name, css, rgb, line: channels(line), hatch, text: isDark ? "#ffffff" : "#000000" };
}

/**
 * @typedef {number[]} Rgb   red, green and blue, from 0 to 255
 *
 * @typedef {Object} CategoryColor
 * @property {string} name
 * @property {string} css
 * @property {Rgb} rgb
 * @property {Rgb} line   of edges and hatching
 * @property {number} hatch   0: none
 * @property {string} text   the colour of text on it
 */

/**
 * Returns the colours by position of the category. Categories that programs name have memtrace's colours with another
 * hatching.
 * @param {string[]} categories
 * @returns {CategoryColor[]}
 */
export function categoryColors(categories) {
    const all = [...PLAIN, ...HATCHED];
    let others = 0;
    return categories.map((name) => {
        if (name === UNLABELLED) return makeColor(name, OWN.Other, LEVEL);
        if (Object.hasOwn(OWN, name)) return makeColor(name, OWN[name], PLAIN.includes(OWN[name]) ? NO_HATCH : RISING);
        const place = others++;
        return makeColor(name, all[place % all.length], OF_OTHERS[Math.floor(place / all.length) % OF_OTHERS.length]);
    });
}

/**
 * True if a hatch has a line at a pixel.
 * @param {number} hatch
 * @param {number} x
 * @param {number} y
 */
export function isHatchLine(hatch, x, y) {
    return HATCH_LINES[hatch](x, y);
}

/**
 * Paints the sample of a colour: 14 by 14 pixels.
 * @param {HTMLCanvasElement} canvas
 * @param {CategoryColor} color
 */
export function paintSwatch(canvas, { css, line, hatch }) {
    const context = contextOf(canvas);
    context.fillStyle = css;
    context.fillRect(0, 0, canvas.width, canvas.height);
    if (hatch === NO_HATCH) return;
    context.fillStyle = `rgb(${line.join(",")})`;
    for (let y = 0; y < canvas.height; y++)
        for (let x = 0; x < canvas.width; x++) if (isHatchLine(hatch, x, y)) context.fillRect(x, y, 1, 1);
}

/**
 * @typedef {Object} Theme   all other colours
 * @property {string} background
 * @property {string} text
 * @property {string} faint
 * @property {string} line
 * @property {string} accent
 * @property {string} alarm
 * @property {string} bar
 * @property {string} barOther
 * @property {string} barText
 * @property {string} font
 * @property {Rgb} backgroundRgb
 * @property {Rgb} segmentRgb
 * @property {Rgb} cachedRgb
 * @property {Rgb} fadedRgb
 */

/**
 * Reads all other colours from the style sheet, so that it alone distinguishes light and dark.
 * @param {HTMLElement} element
 * @returns {Theme}
 */
export function readTheme(element) {
    const style = getComputedStyle(element);
    /** @param {string} name */
    const get = (name) => style.getPropertyValue(name).trim();
    return {
        background: get("--plot"),
        text: get("--text"),
        faint: get("--faint"),
        line: get("--line"),
        accent: get("--accent"),
        alarm: get("--alarm"),
        bar: get("--bar"),
        barOther: get("--bar-other"),
        barText: get("--bar-text"),
        font: get("--font"),
        backgroundRgb: channels(get("--plot")),
        segmentRgb: channels(get("--segment")),
        cachedRgb: channels(get("--cached")),
        fadedRgb: channels(get("--faded")),
    };
}
