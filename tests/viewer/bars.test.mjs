/** The bars above the charts: steps, phases, spans and kernels, with mouse and keys. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { settle, startBrowser } from "./browser.mjs";
import { factsOf, numbers, press, withOpened } from "./hands.mjs";
import { makeSyntheticPage, PHASES } from "./synthetic.mjs";

let started;
const urls = {};
const data = {};

before(async () => {
    started = await startBrowser();
    for (const [name, count, words] of [
        ["one", 3000, ["small", "kernels"]],
        ["deep", 300, ["small", "deep"]],
    ]) {
        data[name] = makeSyntheticPage(count, words);
        urls[name] = started.write(name, data[name]);
    }
});
after(() => started.close());

const withPage = (name, options, body) => withOpened(started, urls[name], options, body);

test("a double click on a bar zooms to it, and pointing tells its name", () =>
    withPage("one", {}, async (page) => {
        const box = await page.locator("#bars").boundingBox();
        const x = box.x + 78 + 0.5 * (box.width - 90);
        await page.mouse.move(x, box.y + 28);
        assert.match(await page.textContent("#tip"), /^step \d+\n/);
        await page.mouse.dblclick(x, box.y + 28);
        await settle(page);
        const { from, to } = await numbers(page);
        const { marks, events } = data.one.runs[0].tables;
        const begins = marks.event.filter((_, i) => marks.kind[i] === 0).map((event) => events.time[event]);
        assert.ok(
            begins.some((begin) => Math.abs(begin - from) < 1),
            `${from}`,
        );
        assert.ok(to > from);
    }));

/** Clicks the kernel that began as the i-th, in a view of a few of them. */
async function clickKernel(page, i) {
    const { start, duration } = data.one.runs[0].tables.kernels;
    await page.goto(`${urls.one}#x=time&from=${start[i] - 2000}&to=${start[i] + 6000}`);
    await settle(page);
    const box = await page.locator("#bars").boundingBox();
    const x = box.x + 78 + ((2000 + duration[i] / 2) / 8000) * (box.width - 90);
    await page.mouse.click(x, box.y + box.height - 10);
    await settle(page);
}

test("a kernel that is clicked names the op that launched it, and leads there", () =>
    withPage("one", {}, async (page) => {
        const { texts } = data.one;
        const { kernels, labels, blocks } = data.one.runs[0].tables;
        const i = kernels.label.findIndex((label, row) => label > 0 && row > 20);
        await clickKernel(page, i);
        const facts = await factsOf(page, "#bar-facts");
        const span = texts[labels.span[kernels.label[i]]];
        assert.equal(facts.name, texts[kernels.name[i]]);
        assert.equal(facts["launched by"], texts[labels.op[kernels.label[i]]]);
        assert.equal(facts["called by"], span.split(".").join(" › "));
        assert.equal(facts.took, `${kernels.duration[i]} ns`);
        await page.waitForFunction(() => location.hash.includes("bar="));
        const other = await started.open(urls.one, { hash: await page.evaluate(() => location.hash) });
        assert.deepEqual(await factsOf(other, "#bar-facts"), facts);
        await other.context().close();
        await page.click("#bar-facts dd:nth-of-type(2) button");
        await settle(page);
        const { selected } = await numbers(page);
        assert.equal(blocks.label[selected], kernels.label[i]);
        await page.click("#bar-facts dd:nth-of-type(3) button");
        await settle(page);
        const { from, to } = await numbers(page);
        assert.ok(from <= kernels.start[i] && kernels.start[i] <= to, `${from} ${kernels.start[i]} ${to}`);
        await press(page, "Escape");
        assert.equal(await page.locator("#bar").isVisible(), false);
    }));

test("a kernel that nobody is known to have launched says so", () =>
    withPage("one", {}, async (page) => {
        await clickKernel(page, data.one.runs[0].tables.kernels.label.indexOf(0, 20));
        assert.equal((await factsOf(page, "#bar-facts"))["launched by"], "an unknown op");
        await page.click("#close-bar");
        await settle(page);
        assert.equal(await page.locator("#bar").isVisible(), false);
    }));

test("bars are selected by keys, which tell them and zoom to them", () =>
    withPage("one", {}, async (page) => {
        const { marks, events } = data.one.runs[0].tables;
        const steps = marks.value.filter((_, i) => marks.kind[i] === 0);
        await page.focus("#bars");
        await press(page, "ArrowRight");
        assert.equal(await page.textContent("#bar-title"), "Step");
        const [, first] = /^step (\d+)$/.exec((await factsOf(page, "#bar-facts")).name);
        await press(page, "ArrowLeft");
        assert.equal(await page.textContent("#said"), `step ${steps[steps.indexOf(Number(first)) - 1]}`);
        await press(page, "ArrowDown");
        assert.equal(await page.textContent("#bar-title"), "Phase");
        assert.ok(PHASES.includes((await factsOf(page, "#bar-facts")).name));
        await press(page, "ArrowDown");
        assert.equal(await page.textContent("#bar-title"), "Span");
        await page.waitForFunction(() => location.hash.includes("bar=3%2C"));
        for (let row = 0; row < 12; row++) await press(page, "ArrowDown");
        assert.equal(await page.textContent("#bar-title"), "Kernel");
        for (let row = 0; row < 12; row++) await press(page, "ArrowUp");
        const { name, allocated } = await factsOf(page, "#bar-facts");
        await press(page, "Enter");
        const { from, to } = await numbers(page);
        const at = (kind) =>
            marks.event[marks.kind.findIndex((each, i) => each === kind && `step ${marks.value[i]}` === name)];
        assert.ok(Math.abs(from - events.time[at(0)]) < 1, name);
        assert.ok(to > from);
        await page.click("#bar-facts button");
        await settle(page);
        const [moment] = (await numbers(page)).moments;
        assert.ok(moment >= at(0) && events.time[moment] <= to);
        assert.equal(allocated, `at most ${await page.textContent("#moment-sizes tr:first-child td")}`);
        await page.focus("#bars");
        await press(page, "Escape");
        assert.equal(await page.locator("#bar").isVisible(), false);
    }));

test("spans have one row, or as many as they are deep", () =>
    withPage("deep", {}, async (page) => {
        const height = async () => (await page.locator("#bars").boundingBox()).height;
        const few = await height();
        assert.equal(await page.textContent("#depths"), "all 8 rows of spans");
        await page.click("#depths");
        await settle(page);
        assert.equal(await height(), few + 7 * 15);
        assert.equal(await page.textContent("#depths"), "one row of spans");
        await page.waitForFunction(() => location.hash.includes("spans=all"));
        await press(page, "b");
        assert.equal(await height(), few);
    }));
