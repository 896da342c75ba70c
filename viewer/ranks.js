/**
 * The ranks of a job: a small chart of each on one axis, the highest peak first. A rank whose run is on the page can be
 * opened; of another, the command that shows it is copied.
 *
 * @typedef {{rank: number, run: string, alike: number, host: string, state: string, peak_bytes: number, step: number,
 *   phase: string, span: string, above_median_bytes: number, excess: ?{category: string, bytes: number},
 *   is_whole: boolean, length: number, bin: number, bytes: number[]}} Rank
 * @typedef {{job: string, place: string, shown: number, axis: "time" | "event", missing: number[], ranks: Rank[]}} Job
 * @typedef {Job & {current: number, length: number, most: number}} ShownJob   current: the rank that is shown
 */
import { takeJson } from "./answers.js";
import { commandOf, copyText } from "./copy_command.js";
import { byId, copyOf, make, setText, shortText } from "./dom.js";
import { changeText, exactBytes, plural, sizeText, timeText } from "./numbers.js";
import { placeText } from "./where.js";

/** The units of a chart (page.html), which its box stretches. */
const CHART_WIDTH = 1000;
const CHART_HEIGHT = 100;
const MOST_RANGES = 4;

/**
 * Returns the rank that a hash names, as text; "" if it names none: then the page shows that which it opens with.
 * @param {string} hash
 */
export function rankOfHash(hash) {
    const rank = new URLSearchParams(hash.replace(/^#/, "")).get("rank") ?? "";
    return /^\d+$/.test(rank) ? rank : "";
}

/**
 * Returns "0–3, 7" for ascending numbers.
 * @param {number[]} numbers
 */
export function rangesText(numbers) {
    /** @type {[number, number][]} */
    const ranges = [];
    for (const number of numbers) {
        const last = ranges.at(-1);
        if (last && number === last[1] + 1) last[1] = number;
        else ranges.push([number, number]);
    }
    const texts = ranges.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`));
    return texts.length <= MOST_RANGES
        ? texts.join(", ")
        : [...texts.slice(0, MOST_RANGES - 1), "…", texts.at(-1)].join(", ");
}

/**
 * Returns the outline of an area, as SVG has it: bins of equal width from 0 on, each as high as its bytes. `only` leaves one
 * bin.
 * @param {Rank} rank
 * @param {ShownJob} job
 * @param {number} [only]
 */
export function areaPath({ bin, bytes }, job, only = -1) {
    /** @param {number} i */
    const x = (i) => ((Math.min(i * bin, job.length) / job.length) * CHART_WIDTH).toFixed(1);
    /** @param {number} value */
    const y = (value) => (CHART_HEIGHT * (1 - value / job.most)).toFixed(1);
    const first = Math.max(0, only);
    const end = only < 0 ? bytes.length : only + 1;
    const parts = [`M${x(first)} ${CHART_HEIGHT}`];
    for (let i = first; i < end; i++) parts.push(`V${y(bytes[i])}H${x(i + 1)}`);
    return `${parts.join("")}V${CHART_HEIGHT}Z`;
}

/**
 * Makes the chart of a rank, with the bin of its peak in another colour. Its row says in words what it shows.
 * @param {Rank} rank
 * @param {ShownJob} job
 */
function makeChart(rank, job) {
    const peak = rank.bytes.indexOf(rank.bytes.reduce((most, each) => Math.max(most, each), 0));
    const chart = copyOf("rank-chart");
    const [area, bar] = chart.children;
    area.setAttribute("d", areaPath(rank, job));
    if (peak >= 0) bar.setAttribute("d", areaPath(rank, job, peak));
    return chart;
}

/**
 * Returns "step 1, backward, model.layers.7"; "" if the trace has none of it.
 * @param {Rank} rank
 */
function whereText({ step, phase, span }) {
    return placeText({ step: step >= 0 ? `step ${step}` : "", phase, span });
}

/**
 * @param {Rank} rank
 * @param {ShownJob} job
 */
function detailText(rank, job) {
    const { excess, state, host } = rank;
    return [
        whereText(rank),
        excess
            ? `${changeText(rank.above_median_bytes)} than the median, ${changeText(excess.bytes)} ${excess.category}`
            : "",
        state === "done" ? "" : state,
        job.ranks.some((other) => other.host !== host) ? host : "",
    ]
        .filter((text) => text)
        .join(" · ");
}

/**
 * @param {Rank} rank
 * @param {ShownJob} job
 */
function copyRankCommand(rank, job) {
    return copyText(commandOf(job.place, "timeline", "--run", rank.run));
}

/**
 * Makes the link, or button, that opens a rank.
 * @param {Rank} rank
 * @param {ShownJob} job
 */
function makeOpener(rank, job) {
    const name = `rank ${rank.rank}`;
    if (!rank.is_whole)
        return make(
            "button",
            {
                type: "button",
                class: "link",
                title: "Its run is not on this page: copies the command that shows it",
                onclick: () => copyRankCommand(rank, job),
            },
            name,
        );
    const hash = rank.rank === job.shown ? "#" : `#rank=${rank.rank}`;
    return make("a", { href: hash, "aria-current": rank.rank === job.current ? "page" : undefined }, name);
}

/**
 * @param {Rank} rank
 * @param {ShownJob} job
 */
function makeRow(rank, job) {
    return make(
        "div",
        { class: "rank" },
        makeOpener(rank, job),
        make("span", { class: "size", title: exactBytes(rank.peak_bytes) }, sizeText(rank.peak_bytes)),
        make("span", { class: "faint", title: detailText(rank, job) }, shortText(detailText(rank, job))),
        makeChart(rank, job),
    );
}

/**
 * Makes the rows of ranks that are alike, all but the first of them folded; they are made when they are unfolded.
 * @param {Rank[]} ranks
 * @param {ShownJob} job
 */
function makeGroup(ranks, job) {
    const [first, ...others] = ranks;
    const item = make("li", {}, makeRow(first, job));
    if (others.length === 0) return item;
    const numbers = others.map(({ rank }) => rank).sort((a, b) => a - b);
    const verb = others.length === 1 ? "is" : "are";
    const folded = make(
        "details",
        {},
        make("summary", {}, `${plural(others.length, "rank")} ${verb} alike: ${rangesText(numbers)}`),
    );
    const unfold = () => folded.append(...others.map((rank) => makeRow(rank, job)));
    folded.addEventListener("toggle", unfold, { once: true });
    if (others.some(({ rank }) => rank === job.current)) folded.open = true;
    item.append(folded);
    return item;
}

/** @param {ShownJob} job */
function titleText(job) {
    const { ranks, missing } = job;
    const name = job.job ? ` of ${job.job}` : "";
    const without =
        missing.length > 0 ? `; no trace of ${missing.length === 1 ? "rank" : "ranks"} ${rangesText(missing)}` : "";
    return `${plural(ranks.length, "rank")}${name}, the highest peak first${without}`;
}

/**
 * Groups ranks by what `alike` says, in their order.
 * @param {Rank[]} ranks
 */
function groupAlike(ranks) {
    const groups = new Map();
    for (const rank of ranks) groups.set(rank.alike, [...(groups.get(rank.alike) ?? []), rank]);
    return [...groups.values()];
}

/** @param {ShownJob} job */
function showJob(job) {
    setText(byId("ranks-title"), shortText(titleText(job)));
    const length = job.axis === "event" ? plural(job.length, "event") : timeText(job.length);
    setText(byId("ranks-axis"), `each from its start, 0 to ${length}, and 0 to ${sizeText(job.most)}`);
    byId("rank-list").replaceChildren(...groupAlike(job.ranks).map((ranks) => makeGroup(ranks, job)));
    byId("ranks").hidden = false;
    byId("rank-list").querySelector("[aria-current]")?.closest(".rank")?.scrollIntoView({ block: "nearest" });
}

/**
 * Shows the ranks, if the page has any. Call it once the document is read.
 * @param {string} rank that is shown, as rankOfHash returns it
 */
export async function showRanks(rank) {
    /** @type {?Job} */
    const job = await takeJson("ranks-chunk-0");
    if (!job) return;
    showJob({
        ...job,
        current: rank === "" ? job.shown : Number(rank),
        length: Math.max(1, ...job.ranks.map(({ length }) => length)),
        most: Math.max(1, ...job.ranks.map(({ peak_bytes: peak }) => peak)),
    });
}
