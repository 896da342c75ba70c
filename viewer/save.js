/**
 * Files of what is seen: a picture of all charts (PNG), the areas as shapes that can be edited (SVG), or their numbers, a row
 * for each column of pixels (CSV).
 */
import { isHatchLine, HATCH_PERIOD } from "./colors.js";
import { byId, contextOf, copyOf, make } from "./dom.js";
import { allocatedAt, reservedAt } from "./moment.js";
import { binaryStep, sizeText, sizeTick } from "./numbers.js";
import { insideOf } from "./plot.js";
import { runName } from "./where.js";

export const FORMATS = ["PNG", "SVG", "CSV"];

/**
 * Returns the categories that the areas show, from the bottom up.
 * @param {Scene} scene
 * @param {AreaColumns[]} columns
 */
function shownCategories({ stack, colors }, columns) {
    return stack.filter((c) =>
        columns.some(({ compositions }) => {
            for (let at = c; at < compositions.length; at += colors.length) if (compositions[at] > 0) return true;
            return false;
        }),
    );
}

/* ---- CSV ---- */

/**
 * Returns a field of CSV, which no spreadsheet takes for a formula.
 * @param {string | number} value
 */
export function csvField(value) {
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * Returns the highest moment of each column, with its bytes by category. Events are the trace's.
 * @param {Scene} scene
 * @param {AreaColumns[]} columns
 */
export function makeCsv(scene, columns) {
    const shown = shownCategories(scene, columns);
    const heads = ["run", "event", "time_ns", "allocated_bytes", "reserved_bytes"];
    /** @type {(string | number)[][]} */
    const rows = [[...heads, ...shown.map((c) => scene.colors[c].name)]];
    scene.runs.forEach((run, number) => {
        const { moments, compositions } = columns[number];
        moments.forEach((moment, x) => {
            if (moment < 0 || moment >= run.eventCount) return;
            rows.push([
                runName(run.info),
                run.info.first_event + moment,
                run.time[moment],
                allocatedAt(scene, number, moment),
                reservedAt(run, moment),
                ...shown.map((c) => compositions[x * scene.colors.length + c]),
            ]);
        });
    });
    return rows.map((row) => `${row.map(csvField).join(",")}\r\n`).join("");
}

/* ---- SVG ---- */

const MARGIN = 78;
const AREA_HEIGHT = 320;
const TITLE = 28;
const LEGEND_WIDTH = 220;

/**
 * Makes an element of SVG, in the namespace of those that the page has: the page itself holds no address.
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 */
function shape(tag, attributes, ...children) {
    const element = document.createElementNS(copyOf("rank-chart").namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
    element.append(...children);
    return element;
}

/**
 * Makes the pattern of a hatched category.
 * @param {CategoryColor} color
 * @param {string} id
 */
function makePattern({ css, line, hatch }, id) {
    const dots = [];
    for (let y = 0; y < HATCH_PERIOD; y++)
        for (let x = 0; x < HATCH_PERIOD; x++) if (isHatchLine(hatch, x, y)) dots.push(`M${x} ${y}h1v1h-1z`);
    const size = { width: HATCH_PERIOD, height: HATCH_PERIOD };
    return shape(
        "pattern",
        { id, ...size, patternUnits: "userSpaceOnUse" },
        shape("rect", { ...size, fill: css }),
        shape("path", { d: dots.join(""), fill: `rgb(${line})` }),
    );
}

/**
 * Returns the outline of a category in the stack; "" if it has no bytes. `below` is raised by it.
 * @param {AreaColumns} columns
 * @param {number} category
 * @param {number} categories
 * @param {Float64Array} below
 * @param {(bytes: number) => string} y
 */
function layerPath({ compositions }, category, categories, below, y) {
    const upper = [];
    const lower = [];
    let any = false;
    for (let x = 0; x < below.length; x++) {
        const bytes = compositions[x * categories + category];
        any ||= bytes > 0;
        lower.push(`L${x + 1} ${y(below[x])}L${x} ${y(below[x])}`);
        below[x] += bytes;
        upper.push(`L${x} ${y(below[x])}L${x + 1} ${y(below[x])}`);
    }
    return any ? `M0 ${y(0)}${upper.join("")}${lower.reverse().join("")}Z` : "";
}

/**
 * @param {number} top
 * @param {number} width
 * @param {number} height
 * @param {Theme} theme
 */
function svgAxis(top, width, height, theme) {
    const step = binaryStep(top, height / 34);
    const out = [];
    for (let bytes = 0; bytes <= top; bytes += step) {
        const y = height * (1 - bytes / top);
        out.push(
            shape("path", { d: `M0 ${y}H${width}`, stroke: theme.line, fill: "none" }),
            shape("text", { x: -7, y: y + 4, "text-anchor": "end", fill: theme.faint }, sizeTick(bytes)),
        );
    }
    return out;
}

/**
 * @param {Scene} scene
 * @param {AreaColumns} columns
 * @param {number} number
 * @param {string[]} fills
 */
function makeArea(scene, columns, number, fills) {
    const { theme, colors, stack, areaTop } = scene;
    const width = columns.moments.length;
    /** @param {number} bytes */
    const y = (bytes) => (AREA_HEIGHT * (1 - bytes / areaTop)).toFixed(2);
    const below = new Float64Array(width);
    const layers = stack.flatMap((c) => {
        const d = layerPath(columns, c, colors.length, below, y);
        return d === "" ? [] : [shape("path", { d, fill: fills[c] }, shape("title", {}, colors[c].name))];
    });
    const title = byId(`area-title-${number}`).textContent;
    return shape(
        "g",
        { transform: `translate(${MARGIN} ${TITLE + number * (AREA_HEIGHT + TITLE)})` },
        shape("text", { x: 0, y: -8, fill: theme.text, "font-weight": 600 }, title),
        ...svgAxis(areaTop, width, AREA_HEIGHT, theme),
        ...layers,
    );
}

/**
 * @param {Scene} scene
 * @param {AreaColumns[]} columns
 * @param {string[]} fills
 * @param {number} left
 */
function makeKey(scene, columns, fills, left) {
    const entries = shownCategories(scene, columns)
        .reverse()
        .map((c, i) =>
            shape(
                "g",
                { transform: `translate(${left} ${TITLE + 20 * i})` },
                shape("rect", { width: 12, height: 12, fill: fills[c] }),
                shape("text", { x: 18, y: 10, fill: scene.theme.text }, scene.colors[c].name),
            ),
        );
    return shape("g", {}, ...entries);
}

/**
 * Returns the areas as a document.
 * @param {Scene} scene
 * @param {AreaColumns[]} columns
 */
export function makeSvg(scene, columns) {
    const { theme, colors, runs } = scene;
    const fills = colors.map(({ css, hatch }, c) => (hatch ? `url(#hatch-${c})` : css));
    const wide = Math.max(...columns.map(({ moments }) => moments.length));
    const width = MARGIN + wide + LEGEND_WIDTH;
    const height = TITLE + runs.length * (AREA_HEIGHT + TITLE);
    const root = shape(
        "svg",
        {
            width,
            height,
            viewBox: `0 0 ${width} ${height}`,
            "font-family": theme.font,
            "font-size": 11,
        },
        shape("title", {}, document.title),
        shape("defs", {}, ...colors.flatMap((color, c) => (color.hatch ? [makePattern(color, `hatch-${c}`)] : []))),
        shape("rect", { width, height, fill: theme.background }),
        ...runs.map((_, number) => makeArea(scene, columns[number], number, fills)),
        makeKey(scene, columns, fills, MARGIN + wide + 24),
    );
    return new XMLSerializer().serializeToString(root);
}

/* ---- PNG ---- */

/**
 * Draws the legend with the bytes at the pinned moment.
 * @param {CanvasRenderingContext2D} context
 * @param {Theme} theme
 * @param {number} left
 */
function drawLegend(context, theme, left) {
    let y = 20;
    context.font = `600 12px ${theme.font}`;
    context.fillStyle = theme.text;
    context.fillText(byId("moment-title").textContent, left, y);
    context.font = `11px ${theme.font}`;
    for (const button of byId("legend").querySelectorAll("button")) {
        if (button.classList.contains("none")) continue;
        y += 20;
        const [swatch, name] = button.children;
        if (swatch instanceof HTMLCanvasElement) context.drawImage(swatch, left, y - 7, 14, 14);
        context.fillText(`${name.textContent}  ${sizeText(Number(button.dataset.bytes))}`, left + 20, y);
    }
}

/**
 * Returns a canvas with all charts as they are, their titles and the legend.
 * @param {Scene} scene
 */
export function makePicture({ theme }) {
    const charts = byId("charts");
    const { width, height } = charts.getBoundingClientRect();
    const [left, top] = insideOf(charts);
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const canvas = make("canvas", {
        width: String(Math.round((width + LEGEND_WIDTH) * ratio)),
        height: String(Math.round((height + TITLE) * ratio)),
    });
    const context = contextOf(canvas);
    context.scale(ratio, ratio);
    context.fillStyle = theme.background;
    context.fillRect(0, 0, width + LEGEND_WIDTH, height + TITLE);
    context.textBaseline = "middle";
    context.fillStyle = theme.text;
    context.font = `600 13px ${theme.font}`;
    context.fillText(document.title, 8, TITLE / 2);
    context.translate(0, TITLE);
    for (const each of charts.querySelectorAll("canvas, h2:not([hidden])")) {
        const box = each.getBoundingClientRect();
        if (each instanceof HTMLCanvasElement)
            context.drawImage(each, box.left - left, box.top - top, box.width, box.height);
        else {
            context.font = `600 11px ${theme.font}`;
            context.fillStyle = theme.faint;
            context.fillText(each.textContent, box.left - left + MARGIN, box.top - top + box.height / 2);
        }
    }
    drawLegend(context, theme, width + 12);
    return canvas;
}

/**
 * Returns the file of a format as a blob.
 * @param {Scene} scene
 * @param {AreaColumns[]} columns
 * @param {string} format
 */
async function blobOf(scene, columns, format) {
    if (format === "CSV") return new Blob([makeCsv(scene, columns)], { type: "text/csv" });
    if (format === "SVG") return new Blob([makeSvg(scene, columns)], { type: "image/svg+xml" });
    return new Promise((resolve) => makePicture(scene).toBlob(resolve, "image/png"));
}

/**
 * Saves what is seen as a file of one of FORMATS.
 * @param {Scene} scene
 * @param {AreaColumns[]} columns
 * @param {string} format
 */
export async function saveAs(scene, columns, format) {
    const url = URL.createObjectURL(await blobOf(scene, columns, format));
    make("a", { href: url, download: `memtrace.${format.toLowerCase()}` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}
