/**
 * The colours of categories. Ten colours that people with any colour vision can tell apart (M. Petroff, "Accessible
 * color sequences for data visualization", 2021). Further categories have one of these with hatching.
 *
 * The categories that fill most memory have plain colours, and neighbours in the stack differ much.
 */

const PETROFF = [
    "#3f90da",
    "#ffa90e",
    "#bd1f01",
    "#94a4a2",
    "#832db6",
    "#a96b59",
    "#e76300",
    "#b9ac70",
    "#717581",
    "#92dadd",
];

/** The [colour, hatched] of memtrace's own categories, in the order of the stack. */
const OWN = {
    Param: [0, false],
    "Opt State": [2, false],
    Gradient: [1, false],
    Embed: [7, true],
    Norm: [7, false],
    Attn: [9, true],
    AttnScores: [8, false],
    AttnOut: [5, false],
    Softmax: [4, false],
    FFN: [9, false],
    einsum: [6, false],
    Block: [3, false],
    Loss: [4, true],
    Data: [0, true],
    Workspace: [8, true],
    Optimizer: [6, true],
};

/** The category of blocks without a label. The page adds it behind the trace's categories. Light, with dark lines. */
export const UNLABELLED = "unlabelled";
const NEUTRAL = "#c3c7cc";

/** Returns the categories from the bottom of a stack to its top: long-lived memory below short-lived memory. */
export function stackOrder(categories) {
    const own = Object.keys(OWN);
    const place = (name) => (own.includes(name) ? own.indexOf(name) : own.length);
    return categories.map((_, i) => i).sort((a, b) => place(categories[a]) - place(categories[b]) || a - b);
}

function channels(hex) {
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

/** Returns the colour of a hatch's lines: dark on a light colour, light on a dark one. */
function hatchOf([r, g, b]) {
    const light = 0.3 * r + 0.6 * g + 0.1 * b > 120;
    return [r, g, b].map((value) => Math.round(light ? value * 0.45 : value + (255 - value) * 0.6));
}

/**
 * @typedef {{name: string, css: string, rgb: number[], hatch: number[] | null}} CategoryColor
 * @returns {CategoryColor[]} by position of the category
 */
export function categoryColors(categories) {
    let next = 0;
    return categories.map((name) => {
        if (name === UNLABELLED)
            return { name, css: NEUTRAL, rgb: channels(NEUTRAL), hatch: hatchOf(channels(NEUTRAL)) };
        const [color, hatched] = Object.hasOwn(OWN, name) ? OWN[name] : [next++ % PETROFF.length, true];
        const rgb = channels(PETROFF[color]);
        return { name, css: PETROFF[color], rgb, hatch: hatched ? hatchOf(rgb) : null };
    });
}

/** True if the hatch has a line at a pixel. All pictures use this rule, so that they match. */
export const HATCH_PERIOD = 7;
export function isHatchLine(x, y) {
    return (x + y) % HATCH_PERIOD < 2;
}

/** Paints the sample of a category's colour: 14 by 14 pixels. */
export function paintSwatch(canvas, color) {
    const context = canvas.getContext("2d");
    context.fillStyle = color.css;
    context.fillRect(0, 0, canvas.width, canvas.height);
    if (!color.hatch) return;
    context.fillStyle = `rgb(${color.hatch.join(",")})`;
    for (let y = 0; y < canvas.height; y++)
        for (let x = 0; x < canvas.width; x++) if (isHatchLine(x, y)) context.fillRect(x, y, 1, 1);
}

/** Reads all other colours from the style sheet, so that it alone distinguishes light and dark. */
export function readTheme(element) {
    const style = getComputedStyle(element);
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
        segment: get("--segment"),
        font: get("--font"),
        backgroundRgb: channels(get("--plot")),
        cachedRgb: channels(get("--cached")),
        fadedRgb: channels(get("--faded")),
    };
}
