/**
 * The place of a moment in the program, in words, with the names in the trace.
 *
 * @typedef {{step: string, phase: string, span: string, time: string, event: string}} Place   "" for each that is missing; the
 *   event as the trace numbers it
 */
import { AFTER_ALL, hasHostTime } from "./axis.js";
import { intervalAt, lastAtMost } from "./marks.js";
import { countText, sizeText, timeText } from "./numbers.js";

/**
 * Returns the innermost span around a moment; "" outside of all.
 * @param {Run} run
 * @param {string[]} texts
 * @param {number} moment
 */
function spanAt(run, texts, moment) {
    for (let depth = run.lanes.spans.length - 1; depth >= 0; depth--) {
        const lane = run.lanes.spans[depth];
        const i = intervalAt(lane, moment);
        if (i >= 0) return texts[lane.text[i]];
    }
    return "";
}

/**
 * Returns "step 2", or the position between the steps; "" for a run without steps.
 * @param {Lane} steps
 * @param {number} moment
 */
function stepText(steps, moment) {
    const last = lastAtMost(steps.begin, moment);
    if (last >= 0) return `${moment < steps.end[last] ? "" : "after "}step ${steps.text[last]}`;
    return steps.begin.length > 0 ? "before the first step" : "";
}

const NOWHERE = { step: "", phase: "", span: "", time: "" };

/**
 * Returns the place of a moment.
 * @param {Description} description
 * @param {Run} run
 * @param {number} moment
 * @returns {{step: string, phase: string, span: string, time: string, event: string}} "" for each that is missing; the
 *   event as the trace numbers it
 */
export function describeMoment(description, run, moment) {
    if (moment < 0)
        return { ...NOWHERE, event: moment === AFTER_ALL ? "after the end of the run" : "before the first event" };
    const { steps, phases } = run.lanes;
    const phase = intervalAt(phases, moment);
    return {
        step: stepText(steps, moment),
        phase: phase < 0 ? "" : (description.phases[phases.text[phase]] ?? ""),
        span: spanAt(run, description.texts, moment),
        time: run.timed ? `${timeText(run.time[moment])}${hasHostTime(run.info) ? " host time" : ""}` : "",
        event: `event ${countText(run.info.first_event + moment)}`,
    };
}

/**
 * Returns "step 1, backward, model.layers.7.ffn"; "" if the trace has none of it.
 * @param {Pick<Place, "step" | "phase" | "span">} place
 */
export function placeText(place) {
    return [...new Set([place.step, place.phase, place.span])].filter((text) => text).join(", ");
}

/**
 * Returns the same after a verb: " in step 1, backward", " before the first step, init", "".
 * @param {Pick<Place, "step" | "phase" | "span">} place
 */
export function inPlaceText(place) {
    const text = placeText(place);
    if (text === "") return "";
    return /^(before|after) /.test(place.step) ? ` ${text}` : ` in ${text}`;
}

/**
 * Returns "100.00 MiB  Param  parameter  model.layers.7.ffn.w1" of a block.
 * @param {Description} description
 * @param {Run} run
 * @param {number} block
 */
export function blockText({ texts, categories }, { labels, blocks, sizes }, block) {
    const label = blocks.label[block];
    const words = [categories[labels.category[label]], texts[labels.op[label]], texts[labels.span[label]]];
    return [sizeText(sizes.block[blocks.size[block]]), ...words].filter((text) => text).join("  ");
}

/**
 * Joins texts to a list, without empty ones.
 * @param {...string} texts
 */
export function listText(...texts) {
    return texts.filter((text) => text).join(", ");
}

/**
 * Returns "step 1 · backward · model.layers.7 · 64.204 ms · event 17,041".
 * @param {Place} place
 */
export function momentText(place) {
    return [...new Set([place.step, place.phase, place.span]), place.time, place.event]
        .filter((text) => text)
        .join(" · ");
}

/**
 * Returns a run's name for people.
 * @param {RunInfo} info
 */
export function runName(info) {
    return info.name ? info.name : `run ${info.id}`;
}

/**
 * Returns the op that launched a kernel: "softmax.div in model.layers.31.attn".
 * @param {Description} description
 * @param {Run} run
 * @param {number} label
 */
export function launcherText({ texts }, run, label) {
    if (label === 0) return "launched by an unknown op";
    const { op, span } = run.labels;
    const names = [texts[op[label]], texts[span[label]]].filter((text) => text);
    return names.length > 0 ? names.join(" in ") : "launched by an unnamed op";
}
