/** The colours: people with any colour vision can tell categories apart, and text can be read. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { PHASE_TINTS } from "../../viewer/bars.js";
import { categoryColors, channels, contrastOf, roleColors, UNLABELLED } from "../../viewer/colors.js";
import { CATEGORIES } from "./synthetic.mjs";

/** What people see with all cones, without red ones, green ones, blue ones: Machado et al. 2009, of linear RGB. */
const VISIONS = [
    [1, 0, 0, 0, 1, 0, 0, 0, 1],
    [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
    [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
    [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
];

/** Returns a colour in CIELAB, as it is seen. */
function labOf(rgb, seen) {
    const linear = rgb.map((value) => (value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
    const [r, g, b] = [0, 3, 6].map((row) =>
        Math.min(
            1,
            Math.max(
                0,
                linear.reduce((sum, value, i) => sum + seen[row + i] * value, 0),
            ),
        ),
    );
    const f = (t) => (t > 216 / 24389 ? Math.cbrt(t) : ((24389 / 27) * t + 16) / 116);
    const x = f((0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047);
    const y = f(0.2126729 * r + 0.7151522 * g + 0.072175 * b);
    const z = f((0.0193339 * r + 0.119192 * g + 0.9503041 * b) / 1.08883);
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

const RADIAN = Math.PI / 180;

/** Returns the difference of two colours by CIEDE2000 (ISO/CIE 11664-6), of CIELAB. */
function differenceOf([l1, a1, b1], [l2, a2, b2]) {
    const mean = (Math.hypot(a1, b1) + Math.hypot(a2, b2)) / 2;
    const g = 1.5 - 0.5 * Math.sqrt(mean ** 7 / (mean ** 7 + 25 ** 7));
    const [c1, c2] = [Math.hypot(a1 * g, b1), Math.hypot(a2 * g, b2)];
    const hue = (a, b) => (Math.atan2(b, a * g) / RADIAN + 360) % 360;
    const [h1, h2] = [hue(a1, b1), hue(a2, b2)];
    let turn = c1 * c2 === 0 ? 0 : h2 - h1;
    if (Math.abs(turn) > 180) turn -= 360 * Math.sign(turn);
    const l = (l1 + l2) / 2;
    const c = (c1 + c2) / 2;
    const h = c1 * c2 === 0 ? h1 + h2 : (h1 + turn / 2 + 360) % 360;
    const cos = (factor, shift) => Math.cos((factor * h + shift) * RADIAN);
    const t = 1 - 0.17 * cos(1, -30) + 0.24 * cos(2, 0) + 0.32 * cos(3, 6) - 0.2 * cos(4, -63);
    const dl = (l2 - l1) / (1 + (0.015 * (l - 50) ** 2) / Math.sqrt(20 + (l - 50) ** 2));
    const dc = (c2 - c1) / (1 + 0.045 * c);
    const dh = (2 * Math.sqrt(c1 * c2) * Math.sin((turn / 2) * RADIAN)) / (1 + 0.015 * c * t);
    const rotation =
        -2 * Math.sqrt(c ** 7 / (c ** 7 + 25 ** 7)) * Math.sin(60 * Math.exp(-(((h - 275) / 25) ** 2)) * RADIAN);
    return Math.sqrt(dl ** 2 + dc ** 2 + dh ** 2 + rotation * dc * dh);
}

function leastDifference(first, second, visions = VISIONS) {
    return Math.min(...visions.map((seen) => differenceOf(labOf(first, seen), labOf(second, seen))));
}

test("differences are those that were published with the formula", () => {
    // Sharma, Wu and Dalal, "The CIEDE2000 color-difference formula", table 1: pairs 1, 7, 14, 16, 25.
    for (const [first, second, expected] of [
        [[50, 2.6772, -79.7751], [50, 0, -82.7485], 2.0425],
        [[50, 0, 0], [50, -1, 2], 2.3669],
        [[50, 2.49, -0.001], [50, -2.49, 0.0011], 7.2195],
        [[50, 2.5, 0], [50, 0, -2.5], 4.3065],
        [[60.2574, -34.0099, 36.2677], [60.4626, -34.1751, 39.4387], 1.2644],
    ])
        assert.ok(Math.abs(differenceOf(first, second) - expected) < 1e-4, `${first} and ${second}`);
});

const LEAST = 15;
const css = readFileSync(new URL("../../viewer/page.css", import.meta.url), "utf8");
/** The values of a variable of the style sheet: in light, in dark. */
const both = (name) => [...css.matchAll(new RegExp(`--${name}: (#[0-9a-f]{6})`, "g"))].map(([, hex]) => hex);
const surfaces = ["plot", "cached"].flatMap((name) => both(name).map(channels));
const own = categoryColors([...CATEGORIES, "Other"]);

const palettes = { roles: roleColors(), categories: own };

for (const [what, colors] of Object.entries(palettes))
    test(`${what} differ for any colour vision, or one of the two is hatched; cached and unmapped do, too`, () => {
        assert.equal(surfaces.length, 4);
        colors.forEach((color, i) => {
            for (const other of colors.slice(0, i)) {
                const names = `${color.name} and ${other.name}`;
                const visions = Boolean(color.hatch) === Boolean(other.hatch) ? VISIONS : VISIONS.slice(0, 1);
                assert.ok(leastDifference(color.rgb, other.rgb, visions) >= LEAST, names);
            }
            for (const surface of surfaces) assert.ok(leastDifference(color.rgb, surface) >= LEAST, color.name);
        });
    });

/** Returns lightness, chroma and hue of a colour. */
function lightnessChromaHue(rgb) {
    const [l, a, b] = labOf(rgb, VISIONS[0]);
    return [l, Math.hypot(a, b), (Math.atan2(b, a) / RADIAN + 360) % 360];
}

test("colours are calm: no plain one is vivid, and at most one is a reddish brown", () => {
    for (const [what, colors] of Object.entries(palettes)) {
        for (const { name, rgb, hatch } of colors) assert.ok(hatch || lightnessChromaHue(rgb)[1] < 60, name);
        const browns = colors.filter(({ rgb }) => {
            const [l, c, h] = lightnessChromaHue(rgb);
            return l < 50 && c > 20 && h > 20 && h < 65;
        });
        assert.ok(browns.length <= 1, `${what}: ${browns.map(({ name }) => name).join()}`);
    }
});

/** Returns the text of a file of the project. */
const textOf = (path) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

test("roles have the same colours in the notebook, and the report has three of the five plain ones", () => {
    const plain = palettes.roles.filter(({ hatch }) => !hatch);
    assert.equal(plain.length, 5);
    const notebook = textOf("python/memtrace/_html.py");
    for (const { name, css: hex } of palettes.roles) assert.ok(notebook.includes(`"${name}": "${hex}"`), name);
    const report = [...textOf("src/answer/report.css").matchAll(/^\.[abc] \{ fill: (#[0-9a-f]{6})/gm)].map(
        ([, hex]) => hex,
    );
    assert.equal(report.length, 3);
    for (const hex of report) assert.ok(plain.some((each) => each.css === hex), hex); // prettier-ignore
});

test("no two categories look the same, whatever a program calls its own", () => {
    const names = Array.from({ length: 64 - own.length }, (_, i) => `mine ${i}`); // docs/categories.md
    const all = categoryColors([...own.map(({ name }) => name), ...names, UNLABELLED]);
    assert.equal(new Set(all.map(({ css: colour, hatch }) => `${colour} ${hatch}`)).size, all.length);
});

test("a line on a colour is nearer to its colour than to any other one", () => {
    const distances = [
        (a, b) => leastDifference(a, b, VISIONS.slice(0, 1)),
        (a, b) => Math.hypot(...a.map((v, i) => v - b[i])),
    ];
    for (const colors of Object.values(palettes))
        for (const { name, rgb, line } of colors)
            for (const distance of distances)
                for (const other of [...colors.map((each) => each.rgb), ...surfaces])
                    if (other !== rgb) assert.ok(distance(line, rgb) < distance(line, other), name);
});

test("phases differ for any colour vision", () => {
    const tints = PHASE_TINTS.map(channels);
    tints.forEach((tint, i) => tints.slice(0, i).forEach((other) => assert.ok(leastDifference(tint, other) >= LEAST)));
});

test("text has the contrast of WCAG 2.2 AA", () => {
    const least = 4.5;
    const white = [255, 255, 255];
    for (const { name, rgb, text } of [...own, ...palettes.roles])
        assert.ok(contrastOf(rgb, text === "#ffffff" ? white : [0, 0, 0]) >= least, name);
    for (const tint of PHASE_TINTS) assert.ok(contrastOf(channels(tint), white) >= least, tint);
    for (const theme of [0, 1])
        for (const on of ["page", "panel", "plot", "button", "button-over"])
            for (const text of ["text", "faint", "accent", "alarm"])
                assert.ok(
                    contrastOf(channels(both(text)[theme]), channels(both(on)[theme])) >= least,
                    `${text} on ${on}`,
                );
    for (const theme of [0, 1])
        for (const on of ["bar", "bar-other", "more", "less"])
            assert.ok(contrastOf(channels(both("bar-text")[theme]), channels(both(on)[theme])) >= least, on);
});
