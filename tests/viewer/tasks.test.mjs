/** The five questions of docs/timeline.md, played as written: each is answered in at most two actions. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { settle, startBrowser } from "./browser.mjs";
import { makeJob } from "./job.mjs";
import { changeText, sizeText } from "../../viewer/numbers.js";
import { ask, MEMTRACE, simulate, writeTimeline } from "./program.mjs";

const skip = MEMTRACE ? false : "MEMTRACE names no program";
const MOST_ACTIONS = 2;
let started;
const urls = {};

const key = (name) => (page) => page.keyboard.press(name);

/** Returns the layer that has most at the peak, and its bytes, by the trace. */
function largestLayer() {
    const sql =
        "WITH peak AS (SELECT event FROM summary_peak WHERE run = :run AND step = -2 AND measure = 'allocated') " +
        "SELECT layer, sum(block_bytes) AS bytes FROM block, peak WHERE run = :run AND layer IS NOT NULL AND " +
        "span LIKE 'model.%' AND allocation <= event AND (end_event IS NULL OR end_event > event) " +
        "GROUP BY layer ORDER BY bytes DESC LIMIT 1";
    return ask(started.folder, "sql", sql, "--run", "one").rows[0];
}

const tasks = [
    {
        question: "Which layer makes the peak?",
        page: "one",
        actions: [key("l")],
        async check(page) {
            const [, bytes] = largestLayer();
            const widest = await page.locator("#icicle > *").evaluateAll((all) =>
                all
                    .filter(({ textContent }) => /^\d+$/.test(textContent))
                    .reduce((a, b) => (parseFloat(b.style.width) > parseFloat(a.style.width) ? b : a))
                    .getAttribute("title"),
            );
            assert.match(widest, /^model\.layers\.\d+: /);
            assert.ok(widest.includes(sizeText(bytes)), `${widest} has ${bytes}`);
        },
    },
    {
        question: "What should I change?",
        page: "one",
        actions: [],
        async check(page) {
            const alloc = ["--alloc", "policy=tight"];
            const { simulated, findings } = ask(started.folder, "advise", "--run", "one", ...alloc);
            const bytes = ({ reserved_bytes, allocated_bytes }) => sizeText(Math.max(reserved_bytes, allocated_bytes));
            const least = Math.min(...simulated.map(({ peak }) => Math.max(peak.reserved_bytes, peak.allocated_bytes)));
            assert.ok((await page.textContent("#remedy")).includes(`→ ${bytes(findings[0].replayed)} reserved`));
            assert.ok((await page.textContent("#changes .sizes")).includes(`→ ${sizeText(least)} reserved`));
            await page.click("#copy-remedy");
            const copied = await page.evaluate(() => navigator.clipboard.readText());
            assert.equal(copied, await page.textContent("#remedy-line"));
        },
    },
    {
        question: "Why did this allocation fail?",
        page: "oom",
        actions: [],
        async check(page) {
            const { memory, verdict } = ask(started.folder, "oom", "--run", "oom");
            const answer = await page.textContent("#answer");
            assert.ok(answer.startsWith(`Out of memory: ${sizeText(memory.short_bytes)} short`), answer);
            assert.ok(answer.includes(verdict), answer);
            const text = await page.textContent("#allocator-text");
            assert.ok(text.includes(`the largest ${sizeText(memory.largest_hole_bytes)}`), text);
        },
    },
    {
        question: "What differs between two runs?",
        page: "diff",
        actions: [],
        async check(page) {
            const { causes } = ask(started.folder, "diff", "one", "two");
            const text = await page.textContent("#cause-rows");
            for (const { cause, bytes } of causes.slice(0, 3))
                assert.ok(text.includes(cause + changeText(bytes)), text);
        },
    },
    {
        question: "Which rank needs most, and why?",
        page: "ranks",
        actions: [],
        async check(page) {
            await page.waitForSelector("#ranks:not([hidden])");
            const text = await page.locator(".rank").first().textContent();
            assert.match(
                text,
                /^rank 5.*4\.00 KiB.*backward, model\.layers\.7.*\+2\.00 KiB than the median, \+1\.00 KiB Loss/,
            );
        },
    },
];

before(async () => {
    if (skip) return;
    started = await startBrowser();
    const { folder } = started;
    simulate(folder, "one", ["--model", "small"]);
    simulate(folder, "two", ["--model", "small", "--autocast", "bf16"]);
    simulate(folder, "oom", ["--model", "small", "--device", "sim:3GiB"], 5);
    urls.one = writeTimeline(folder, "one", ["--run", "one"]);
    urls.diff = writeTimeline(folder, "diff", ["--run", "one", "--diff", "two"]);
    urls.oom = writeTimeline(folder, "oom", ["--run", "oom"]);
    urls.ranks = started.write("ranks", makeJob());
});
after(() => started?.close());

test("the questions are those of docs/timeline.md", () => {
    const written = [...readFileSync("../../docs/timeline.md", "utf8").matchAll(/^\| ([A-Z].*?\?) \|/gm)];
    assert.deepEqual(
        tasks.map(({ question }) => question),
        written.map(([, question]) => question),
    );
});

for (const { question, page: name, actions, check } of tasks)
    test(question, { skip }, async () => {
        assert.ok(actions.length <= MOST_ACTIONS);
        const page = await started.open(urls[name]);
        for (const act of actions) {
            await act(page);
            await settle(page);
        }
        await check(page);
        assert.deepEqual(page.problems, []);
        await page.context().close();
    });
