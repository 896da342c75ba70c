/**
 * The card at the top of the page: a bar of each run's memory on one scale, by role, and the remedy to try first. The sentences
 * above the bars are answer.js's.
 *
 *   |parameter|optimizer state|gradient|activation|temporary|other|cached|reserved at other times|outside|free      |
 *                                                                                                    the card's end
 *
 * @typedef {{name: string, bytes: number}} MemoryPart
 */
import { bytesBefore, changeOfRemedy, firstRemedy, lineOf, peakOfChange, savingOf } from "./answers.js";
import { roleColors } from "./colors.js";
import { copyText } from "./copy_command.js";
import { breakableText, make, makeCode, shortText } from "./dom.js";
import { wordOfLabels } from "./filter.js";
import { liveBlocks, reservedAt } from "./moment.js";
import { exactBytes, sizeText } from "./numbers.js";
import { runName } from "./where.js";

/** Roles with a part of their own, from the left; others have one if they have a share of the live bytes, or else share one. */
const CARD_ROLES = ["parameter", "optimizer state", "gradient", "activation", "temporary"];
const LEAST_OWN_PART = 0.04;
const OTHER_ROLES = "other";
/** What a run reserved at most, beyond the reserved bytes of the moment. */
const RESERVED_ELSE = "reserved at other times";

/** The share of what is held below which the key under a bar leaves a part out. */
const LEAST_IN_KEY = 0.002;

/**
 * Returns the live bytes of a run by role after a moment.
 * @param {Scene} scene
 * @param {number} number
 * @param {number} moment
 * @returns {Map<string, number>}
 */
function bytesByRole(scene, number, moment) {
    const { labels, blocks, sizes } = scene.runs[number];
    const roleOf = wordOfLabels(scene.description, labels, "role");
    const bytes = new Map(CARD_ROLES.map((name) => [name, 0]));
    for (const block of liveBlocks(scene, number, moment)) {
        const role = roleOf(blocks.label[block]);
        bytes.set(role, (bytes.get(role) ?? 0) + sizes.block[blocks.size[block]]);
    }
    return bytes;
}

/**
 * Returns them as parts: each of CARD_ROLES, then others with much, the largest first, then the rest.
 * @param {Map<string, number>} byRole
 * @returns {MemoryPart[]}
 */
export function rolesInParts(byRole) {
    const all = [...byRole].map(([name, bytes]) => ({ name, bytes }));
    const least = LEAST_OWN_PART * sumOf(all);
    const others = all.filter(({ name }) => !CARD_ROLES.includes(name)).sort((a, b) => b.bytes - a.bytes);
    const large = others.filter(({ name, bytes }) => bytes >= least && name !== OTHER_ROLES);
    const rest = others.filter((part) => !large.includes(part));
    return [...all.slice(0, CARD_ROLES.length), ...large, { name: OTHER_ROLES, bytes: sumOf(rest) }];
}

/**
 * Returns the parts of a run's memory at the moment that the page opens with: the peak, or what was refused.
 * @param {Scene} scene
 * @param {number} number
 * @returns {MemoryPart[]}
 */
export function memoryParts(scene, number) {
    const run = scene.runs[number];
    const moment = scene.openingMoments[number];
    const roles = rolesInParts(bytesByRole(scene, number, moment));
    const live = sumOf(roles);
    const then = reservedAt(run, moment);
    const reserved = scene.refusals[number] ? then : run.peaks.reserved.bytes;
    const { outside_bytes: outside = 0, card_bytes: card = run.info.capacity_bytes } = scene.answers?.verdict ?? {};
    return [
        ...roles,
        { name: "cached", bytes: Math.max(0, then - live) },
        { name: RESERVED_ELSE, bytes: Math.max(0, reserved - Math.max(then, live)) },
        { name: "outside", bytes: outside },
        { name: "free", bytes: Math.max(0, card - Math.max(reserved, live) - outside) },
    ];
}

/**
 * Makes an element in the colour of a part of memory.
 * @param {string} name
 * @param {Attributes} [attributes]
 */
function makeSwatch(name, attributes) {
    const swatch = make("span", { class: `part ${name.replaceAll(" ", "-")}`, ...attributes });
    swatch.style.background = roleColors().find((role) => role.name === name)?.css ?? "";
    return swatch;
}

/**
 * @param {string} name
 * @param {number} bytes
 * @param {number} scale
 */
function makeBarPart(name, bytes, scale) {
    const part = makeSwatch(name, { title: `${name}: ${exactBytes(bytes)}` });
    part.style.width = `${(100 * bytes) / scale}%`;
    return part;
}

/**
 * Makes the bar of a run. What was refused follows what was held, over the rest of the card and beyond its end.
 * @param {MemoryPart[]} parts
 * @param {number} refused
 * @param {number} scale
 */
function makeMemoryBar(parts, refused, scale) {
    const held = parts.filter(({ name, bytes }) => bytes > 0 && !(refused > 0 && name === "free"));
    const bar = make("div", { class: "card-bar", "aria-hidden": "true" });
    bar.append(...held.map(({ name, bytes }) => makeBarPart(name, bytes, scale)));
    if (refused === 0) return bar;
    const end = make("span", { class: "card-end" });
    end.style.left = `${(100 * sumOf(parts)) / scale}%`;
    bar.append(makeBarPart("refused", refused, scale), end);
    return bar;
}

/** @param {MemoryPart[]} parts */
function sumOf(parts) {
    return parts.reduce((sum, { bytes }) => sum + bytes, 0);
}

/**
 * Makes the list of parts below a bar, after the name of its run if there are two.
 * @param {MemoryPart[]} parts
 * @param {string} name
 */
function makeBarKey(parts, name) {
    const held = sumOf(parts.filter((part) => part.name !== "free"));
    return make(
        "ul",
        { class: "card-key" },
        ...(name ? [make("li", { class: "size" }, name)] : []),
        ...parts
            .filter(({ bytes }) => bytes > held * LEAST_IN_KEY)
            .map((part) =>
                make(
                    "li",
                    { title: exactBytes(part.bytes) },
                    makeSwatch(part.name, { "aria-hidden": "true" }),
                    `${part.name} `,
                    make("span", { class: "size" }, sizeText(part.bytes)),
                ),
            ),
    );
}

/**
 * Returns the bars of all runs on one scale, each with its key.
 * @param {Scene} scene
 * @returns {Node[]}
 */
export function cardBars(scene) {
    const isAlone = scene.runs.length === 1;
    const all = scene.runs.map(({ info }, number) => ({
        name: isAlone ? "" : shortText(runName(info)),
        parts: memoryParts(scene, number).filter(({ name }) => isAlone || name !== "free"),
        refused: scene.refusals[number]?.bytes ?? 0,
    }));
    const wholes = all.map(({ parts }) => sumOf(parts));
    const needs = all.map(({ parts, refused }) => sumOf(parts.filter(({ name }) => name !== "free")) + refused);
    // A request may be larger than any card: its part ends with the bar.
    const scale = Math.min(2 * Math.max(...wholes), Math.max(...wholes, ...needs));
    if (scale === 0) return [];
    return all.flatMap(({ name, parts, refused }) => [
        makeMemoryBar(parts, refused, scale),
        makeBarKey([...parts, { name: "refused", bytes: refused }], name),
    ]);
}

/**
 * Returns the name of a change with its saving.
 * @param {Change} change
 * @param {WhatIfAnswer} whatIf
 */
function changeFacts(change, whatIf) {
    return [
        make("strong", {}, ...breakableText(shortText(change.change))),
        ` ${sizeText(bytesBefore(whatIf))} → ${sizeText(peakOfChange(change))} reserved `,
        make("span", { class: "saving" }, sizeText(-savingOf(change, whatIf))),
    ];
}

/**
 * Returns what to change first and the line to copy; nothing if there is no remedy.
 * @param {Scene} scene
 * @returns {Node[]}
 */
export function remedyLines({ answers }) {
    const whatIf = answers?.what_if;
    const first = whatIf && firstRemedy(whatIf);
    if (!first) return [];
    const change = changeOfRemedy(first, whatIf);
    const line = change ? lineOf(change) : first.how;
    return [
        make(
            "p",
            { id: "remedy" },
            make(
                "span",
                {},
                make("span", { class: "faint" }, "First remedy "),
                ...(change ? changeFacts(change, whatIf) : breakableText(shortText(first.what))),
            ),
            make(
                "span",
                { class: "line" },
                makeCode({ id: "remedy-line" }, line),
                make("button", { type: "button", id: "copy-remedy", onclick: () => copyText(line) }, "Copy"),
            ),
        ),
    ];
}
