/**
 * The colours of roles, and of categories for readers who choose them. Two roles, or two categories, differ in their colour
 * by at least 15 (CIEDE2000), as people see it with any colour vision, or else one of them is hatched and the other is not; so
 * do cached and unmapped memory. Seen with three kinds of cones, hatched ones differ from the plain ones by as much, too.
 * tests/viewer/colors.test.mjs checks it.
 *
 * The roles and categories that fill most memory are plain. The five plain roles are those of the notebook
 * (python/memtrace/_html.py) and of the report (src/answer/report.css), too.
 */
import { contextOf } from "./dom.js";

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
 * The colours of memtrace's own categories, in the order of the stack: a colour, and its lines, which are edges and hatching. A
 * line is nearer to its colour than to any other one.
 * @type {Record<string, string[]>}
 */
const OWN = {
    Param: ["#5379c4", "#3863ab"],
    "Opt State": ["#87517a", "#a26a94"],
    Gradient: ["#edd069", "#cbb570"],
    Embed: ["#a29e90", "#bdb9aa"],
    Norm: ["#9393a8", "#aeaec3"],
    Attn: ["#088aa9", "#1e7993"],
    AttnScores: ["#5e5a10", "#757027"],
    AttnOut: ["#432c0e", "#2b1b02"],
    Softmax: ["#52216a", "#32014a"],
    FFN: ["#67b895", "#499a79"],
    einsum: ["#c75e56", "#ac4741"],
    Block: ["#c48c52", "#dea468"],
    Loss: ["#0a5881", "#004263"],
    Data: ["#87bae7", "#6ea2ce"],
    Workspace: ["#fdcaa8", "#d8ad91"],
    Optimizer: ["#747474", "#5b5b5b"],
    Other: ["#8f6848", "#76563c"],
};
const PLAIN_CATEGORIES = ["Param", "Opt State", "Gradient", "Norm", "AttnScores", "Softmax", "FFN", "einsum"];

/** What colours stand for. The page opens with the first. */
export const COLOR_KEYS = ["role", "category"];

/**
 * The colours of roles, likewise.
 * @type {Record<string, string[]>}
 */
const ROLES = {
    parameter: ["#5379c4", "#7395e3"],
    "gathered parameter": ["#044676", "#092d4c"],
    "weight cast": ["#117891", "#338da6"],
    buffer: ["#60c6ff", "#3cabe2"],
    "optimizer state": ["#87517a", "#a46c96"],
    gradient: ["#edd069", "#c7af5b"],
    "key-value cache": ["#727466", "#5a5b50"],
    kept: ["#57470c", "#382d06"],
    activation: ["#75b393", "#6c957f"],
    input: ["#8e7834", "#76621e"],
    temporary: ["#d17a4f", "#b6633a"],
    workspace: ["#fcb57b", "#db9f6f"],
    other: ["#869eab", "#a0b9c6"],
    unknown: ["#a49f8d", "#bfbaa7"],
};
const PLAIN_ROLES = ["parameter", "optimizer state", "gradient", "activation", "temporary"];
const ROLE_NAMES = Object.keys(ROLES);

/** The category of blocks without a label. The page adds it behind the trace's categories. */
export const UNLABELLED = "unlabelled";

/**
 * Returns the positions of colours from the bottom of a stack to its top: long-lived memory below short-lived memory.
 * @param {CategoryColor[]} colors
 */
export function stackOrder(colors) {
    const own = [...ROLE_NAMES, ...Object.keys(OWN)];
    /** @param {string} name */
    const place = (name) => (own.includes(name) ? own.indexOf(name) : own.length);
    return colors.map((_, i) => i).sort((a, b) => place(colors[a].name) - place(colors[b].name) || a - b);
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
    const all = Object.values(OWN);
    let others = 0;
    return categories.map((name) => {
        if (name === UNLABELLED) return makeColor(name, OWN.Other, LEVEL);
        if (Object.hasOwn(OWN, name))
            return makeColor(name, OWN[name], PLAIN_CATEGORIES.includes(name) ? NO_HATCH : RISING);
        const place = others++;
        return makeColor(name, all[place % all.length], OF_OTHERS[Math.floor(place / all.length) % OF_OTHERS.length]);
    });
}

/**
 * Returns the colours of all roles. Roles that this program does not know, and blocks without a label, are unknown.
 * @returns {CategoryColor[]}
 */
export function roleColors() {
    return ROLE_NAMES.map((name) => makeColor(name, ROLES[name], PLAIN_ROLES.includes(name) ? NO_HATCH : RISING));
}

/**
 * Returns the colours of a key.
 * @param {string} key   one of COLOR_KEYS
 * @param {Description} description
 */
export function colorsOf(key, { categories }) {
    return key === "category" ? categoryColors(categories) : roleColors();
}

/**
 * Returns by label the position of its colour among those of a key.
 * @param {string} key
 * @param {Description} description
 * @param {TableColumns} labels
 */
export function colorsOfLabels(key, { texts }, labels) {
    if (key === "category") return Uint8Array.from(labels.category);
    const unknown = ROLE_NAMES.indexOf("unknown");
    const byText = new Map(ROLE_NAMES.map((name, position) => [texts.indexOf(name), position]));
    return Uint8Array.from(labels.role, (text) => byText.get(text) ?? unknown);
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
