/** "Copy as command": the memtrace command that prints what the page shows. */
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
    const rest = trace === "memtrace.db" ? [] : ["--trace", trace];
    return ["memtrace", ...words, ...rest].map((word) => shellQuote(String(word))).join(" ");
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
 * Returns the command for the selected block or else the pinned moment; for two runs, for their difference.
 * @param {Scene} scene
 */
export function commandFor(scene) {
    const { info, blocks } = scene.runs[scene.mapRun];
    if (scene.selected >= 0)
        return commandOf(
            info.trace,
            "sql",
            blockQuery(info.first_event + blocks.alloc[scene.selected]),
            "--run",
            info.id,
        );
    if (scene.runs.length > 1) return diffCommand(scene.runs.map((run) => run.info));
    if (scene.pinnedAtPeak || scene.moments[0] < 0) return commandOf(info.trace, "peak", "--run", info.id);
    return commandOf(
        info.trace,
        "sql",
        compositionQuery(info.first_event, info.first_event + scene.moments[0]),
        "--run",
        info.id,
    );
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
        setText(byId("said"), "The command is shown below the header.");
    }
}

/**
 * Copies the command for what the page shows.
 * @param {Scene} scene
 */
export function copyCommand(scene) {
    return copyText(commandFor(scene));
}
