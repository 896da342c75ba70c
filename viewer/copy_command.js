/** "Copy as command": the memtrace command that prints what the page shows. */
import { momentAt } from "./axis.js";
import { setText, byId } from "./dom.js";

/**
 * Quotes an argument for a POSIX shell.
 * @param {string} text
 */
export function shellQuote(text) {
    return /^[\w.,:/=+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * Returns a command on a trace.
 * @param {string} trace
 * @param {...(string | number)} words
 */
export function commandOf(trace, ...words) {
    return ["memtrace", ...words, "--trace", trace].map((word) => shellQuote(String(word))).join(" ");
}

/** @param {string} name */
const KIND = (name) => `(SELECT id FROM event_kind WHERE name = '${name}')`;

/**
 * Returns the query for the live bytes after an event, by category. Ids are the trace's.
 * @param {number} first
 * @param {number} event
 */
function compositionQuery(first, event) {
    const upTo = `event.id BETWEEN ${first} AND ${event}`;
    return (
        "SELECT category, count(*) AS blocks, sum(block_bytes) AS bytes FROM event " +
        "JOIN label ON label.run = :run AND label.id = event.label " +
        `WHERE kind = ${KIND("alloc")} AND ${upTo} AND event.id NOT IN ` +
        `(SELECT allocation FROM event WHERE kind = ${KIND("free")} AND ${upTo}) GROUP BY category ORDER BY bytes DESC`
    );
}

const ALLOCATIONS =
    "SELECT * FROM event LEFT JOIN label ON label.run = :run AND label.id = event.label " +
    `WHERE kind = ${KIND("alloc")}`;

/** @param {number} event */
function blockQuery(event) {
    return (
        "SELECT * FROM event LEFT JOIN label ON label.run = :run AND label.id = event.label " +
        `WHERE event.id = ${event} OR event.allocation = ${event}`
    );
}

/**
 * Returns the command for the difference of two runs. The second may be in another trace.
 * @param {RunInfo[]} infos
 */
function diffCommand([first, second]) {
    return commandOf(
        first.trace,
        "diff",
        first.id,
        second.trace === first.trace ? second.id : `${second.trace}:${second.id}`,
    );
}

/**
 * Returns the words of the command for the blocks that were allocated in a measured range.
 * @param {Scene} scene
 * @param {{x0: number, x1: number}} measured
 */
function rangeWords({ axis, mapRun, runs }, { x0, x1 }) {
    const first = runs[mapRun].info.first_event;
    const [from, to] = [x0, x1].sort((a, b) => a - b).map((x) => first + Math.max(-1, momentAt(axis, mapRun, x)));
    return ["sql", `${ALLOCATIONS} AND event.id BETWEEN ${from + 1} AND ${to} ORDER BY block_bytes DESC`];
}

/**
 * Returns the words of the command for the selected bar: a step's events, or a module's blocks; null for others.
 * @param {Scene} scene
 */
function barWords({ bar, description }) {
    if (bar?.lane.kind === "step") return ["events", "--step", bar.lane.text[bar.i]];
    if (bar?.lane.kind === "span") return ["top", "--module", description.texts[bar.lane.text[bar.i]]];
    return null;
}

/**
 * Returns the words of the command for the blocks that are shown alone; null if all are shown.
 * @param {Scene} scene
 */
function shownWords({ isolated, within, colorKey, colors, pinnedAtPeak }) {
    const at = pinnedAtPeak ? ["--at", "peak"] : [];
    const only = isolated >= 0 ? [`--${colorKey}`, colors[isolated].name] : [];
    const module = within ? ["--module", within] : [];
    return only.length + module.length > 0 ? ["top", ...only, ...module, ...at] : null;
}

/**
 * Returns the words of the command for the pinned moment: the peak, the refusal, or what was live.
 * @param {Scene} scene
 */
function momentWords(scene) {
    const { info } = scene.runs[0];
    if (scene.pinnedName === "the refusal") return ["oom"];
    if (scene.pinnedAtPeak || scene.moments[0] < 0) return ["peak"];
    return ["sql", compositionQuery(info.first_event, info.first_event + scene.moments[0])];
}

/**
 * Returns the command for what is selected: a block, a bar, a range, a category or a module; else for the pinned moment, or for
 * the difference of two runs.
 * @param {Scene} scene
 */
export function commandFor(scene) {
    const { info, blocks } = scene.runs[scene.mapRun];
    const words =
        (scene.selected >= 0 && ["sql", blockQuery(info.first_event + blocks.alloc[scene.selected])]) ||
        barWords(scene) ||
        (scene.measured && rangeWords(scene, scene.measured)) ||
        shownWords(scene);
    if (words) return commandOf(info.trace, ...words, "--run", info.id);
    if (scene.runs.length > 1) return diffCommand(scene.runs.map((run) => run.info));
    return commandOf(info.trace, ...momentWords(scene), "--run", info.id);
}

/**
 * Hides a command that no longer matches the page.
 * @param {Scene} scene
 */
export function forgetCommand(scene) {
    const command = byId("command");
    if (!command.hidden && byId("command-text").textContent !== commandFor(scene)) command.hidden = true;
}

/**
 * Copies and shows a command, and says so. If copying is not allowed, it is there for the user to copy.
 * @param {string} text
 */
export async function copyText(text) {
    byId("command").hidden = false;
    setText(byId("command-text"), text);
    try {
        await navigator.clipboard.writeText(text);
        setText(byId("said"), "Copied the command.");
    } catch {
        setText(byId("said"), "The command is shown at the lower edge.");
    }
}

/**
 * Copies the command for what the page shows.
 * @param {Scene} scene
 */
export function copyCommand(scene) {
    return copyText(commandFor(scene));
}
