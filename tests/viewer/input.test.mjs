/** Other inputs than a mouse with a wheel: fingers, trackpads, the keyboard on a control. Also paper and copying. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { settle, startBrowser } from "./browser.mjs";
import { clickAt, factsOf, numbers, pointOf, press, withOpened } from "./hands.mjs";
import { makeSyntheticPage } from "./synthetic.mjs";
import { csvField } from "../../viewer/save.js";

const noPoppler = spawnSync("pdftoppm", ["-v"]).error ? "pdftoppm (poppler-utils) is not there" : false;
let started;
const urls = {};

before(async () => {
    started = await startBrowser();
    urls.one = started.write("one", makeSyntheticPage(3000, ["small", "kernels"]));
    urls.two = started.write("two", makeSyntheticPage(3000, ["small", "diff"]));
});
after(() => started.close());

const withPage = (options, body) => withOpened(started, urls.one, options, body);

/** Sends a pointer event to a chart, since playwright has no second finger. */
const finger = (page, type, selector, pointerId, x, y) =>
    page.evaluate(
        ([type, selector, pointerId, x, y]) =>
            document.querySelector(selector).dispatchEvent(
                new PointerEvent(type, {
                    pointerId,
                    pointerType: "touch",
                    isPrimary: pointerId === 1,
                    button: type === "pointermove" ? -1 : 0,
                    buttons: type === "pointerup" ? 0 : 1,
                    clientX: x,
                    clientY: y,
                    bubbles: true,
                }),
            ),
        [type, selector, pointerId, x, y],
    );

const spanOf = ({ from, to }) => to - from;

test("a tap shows what a pointer at rest does, and leaves it there", () =>
    withPage({}, async (page) => {
        const [x, y] = await pointOf(page, "#map", 0.5, 0.97);
        await finger(page, "pointerdown", "#map", 1, x, y);
        await finger(page, "pointerup", "#map", 1, x, y);
        await finger(page, "pointerleave", "#charts", 1, x, y);
        await settle(page);
        assert.equal(await page.isVisible("#tip"), true);
        assert.equal(await page.isVisible("#block"), true);
        assert.match(await page.textContent("#said"), /^[\d.]+ .iB {2}\w/);
    }));

test("two fingers zoom at what is between them, and move it", () =>
    withPage({}, async (page) => {
        const [left, y] = await pointOf(page, "#area-0", 0.4, 0.5);
        const [right] = await pointOf(page, "#area-0", 0.6, 0.5);
        const [farLeft] = await pointOf(page, "#area-0", 0.3, 0.5);
        const [farRight] = await pointOf(page, "#area-0", 0.7, 0.5);
        const before = await numbers(page);
        await finger(page, "pointerdown", "#area-0", 1, left, y);
        await finger(page, "pointerdown", "#area-0", 2, right, y);
        await finger(page, "pointermove", "#area-0", 1, farLeft, y);
        await finger(page, "pointermove", "#area-0", 2, farRight, y);
        await settle(page);
        const wide = await numbers(page);
        assert.ok(Math.abs(spanOf(wide) / spanOf(before) - 0.5) < 0.01, "twice as far apart, half as much");
        assert.ok(Math.abs((wide.from + wide.to) / 2 - before.length / 2) < 0.01 * before.length);
        await finger(page, "pointerup", "#area-0", 1, farLeft, y);
        for (const by of [0, 100, 200]) await finger(page, "pointermove", "#area-0", 2, farRight - by, y);
        await finger(page, "pointerup", "#area-0", 2, farRight - 200, y);
        await settle(page);
        const after = await numbers(page);
        assert.ok(Math.abs(spanOf(after) - spanOf(wide)) < 1, "what one finger does is not zooming");
        assert.ok(after.from > wide.from);
        assert.equal(await page.textContent("#moment-title"), "At the peak", "and none of it was a click");
    }));

test("a finger that moves up or down scrolls the page", () =>
    withPage({ width: 390, height: 844 }, async (page) => {
        assert.equal(
            await page.evaluate(() => getComputedStyle(document.getElementById("charts")).touchAction),
            "pan-y",
        );
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "and not sideways");
    }));

/** Turns the wheel in the units of a device, since playwright has pixels only. */
const wheel = (page, selector, x, y, values) =>
    page.evaluate(
        ([selector, x, y, values]) =>
            document
                .querySelector(selector)
                .dispatchEvent(
                    new WheelEvent("wheel", { clientX: x, clientY: y, bubbles: true, cancelable: true, ...values }),
                ),
        [selector, x, y, values],
    );

test("wheels that count in lines or pages, and a trackpad's pinch, zoom and move as others do", () =>
    withPage({}, async (page) => {
        const point = await pointOf(page, "#area-0", 0.5, 0.5);
        const spanAfter = async (values) => {
            await press(page, "0");
            await wheel(page, "#area-0", ...point, values);
            await settle(page);
            return spanOf(await numbers(page)) / (await numbers(page)).length;
        };
        const pixels = await spanAfter({ deltaY: -60 });
        assert.ok(Math.abs((await spanAfter({ deltaY: -3, deltaMode: 1 })) - pixels) < 0.02, "lines");
        assert.ok((await spanAfter({ deltaY: -1, deltaMode: 2 })) < pixels, "a page is more than three lines");
        assert.ok((await spanAfter({ deltaY: -10, ctrlKey: true })) < 0.92, "a pinch counts in little");
        await press(page, "0", "w", "w", "w");
        const before = await numbers(page);
        await wheel(page, "#area-0", ...point, { deltaX: 3, deltaMode: 1 });
        await settle(page);
        const after = await numbers(page);
        assert.ok(after.from - before.from > spanOf(before) * 0.03, "lines sideways");
    }));

test("the wheel scrolls the page beside the charts, where all is shown, and as long as it goes on", () =>
    withPage({ height: 500 }, async (page) => {
        const scrolled = () => page.evaluate(() => document.scrollingElement.scrollTop);
        const turn = async (point, by, waitMs = 300) => {
            await page.waitForTimeout(waitMs);
            await page.mouse.move(...point);
            const [before, view] = [await scrolled(), await numbers(page)];
            await page.mouse.wheel(0, by);
            await page.waitForTimeout(100);
            return { by: (await scrolled()) - before, zoomed: spanOf(await numbers(page)) !== spanOf(view) };
        };
        const inside = await pointOf(page, "#area-0", 0.5, 0.2);
        const { x } = await page.locator("#area-0").boundingBox();
        assert.deepEqual(await turn(inside, -60), { by: 0, zoomed: true }, "in");
        assert.deepEqual(await turn(inside, 40), { by: 0, zoomed: true }, "out");
        await press(page, "0");
        assert.deepEqual(await turn(inside, 40), { by: 40, zoomed: false }, "out, of all that there is");
        assert.deepEqual(await turn(inside, -20, 0), { by: -20, zoomed: false }, "on with it");
        assert.deepEqual(await turn([x + 20, inside[1]], -20), { by: -20, zoomed: false }, "beside the charts");
    }));

test("on a narrow page the panel of what was chosen is in view", () =>
    withPage({ width: 800, height: 700 }, async (page) => {
        await clickAt(page, "#area-0", 0.5, 0.9);
        await page.evaluate(() => document.getElementById("map").scrollIntoView({ block: "start" }));
        await clickAt(page, "#map", 0.5, 0.2);
        const { y, height } = await page.locator("#block").boundingBox();
        assert.ok(y > 0 && y + height <= 700, `${y} ${height}`);
        assert.equal(await page.evaluate(() => document.activeElement?.tagName), "BODY");
        const last = page.locator("#live button").last();
        await last.focus(); // by keyboard: the page scrolls until the button is above the panel
        const button = await last.boundingBox();
        assert.ok(button.y + button.height < (await page.locator("#block").boundingBox()).y, "nothing is hidden by it");
        await page.click("#close-block");
        await settle(page);
        assert.equal(await page.isVisible("#block"), false);
    }));

test("the keyboard stays where it is when a list is made anew", () =>
    withPage({}, async (page) => {
        const focused = () => page.evaluate(() => document.activeElement?.getAttribute("data-key"));
        await page.locator("#live .fold").first().click();
        const member = page.locator("#live .member button").first();
        const key = await member.getAttribute("data-key");
        await member.press("Enter");
        await settle(page);
        assert.equal(await focused(), key);
        assert.equal(
            (await factsOf(page, "#block-facts")).role,
            await page.textContent("#live .group td:nth-child(2)"),
        );
        const twin = page.locator("#twins button:not([aria-current])").first();
        const other = await twin.getAttribute("data-key");
        await twin.press("Enter");
        await settle(page);
        assert.equal(await focused(), other);
        assert.equal(await page.locator("#twins [aria-current]").getAttribute("data-key"), other);
        const count = await page.locator("#icicle button").count();
        assert.ok(count > 1);
        await page.locator("#icicle button").nth(1).press("Enter");
        await settle(page);
        assert.equal(await page.evaluate(() => document.activeElement?.closest("#icicle")?.id), "icicle");
    }));

test("every block is in the list, once more of it is listed", async () => {
    const url = started.write("many", makeSyntheticPage(20000, ["noise"]));
    await withOpened(started, url, {}, async (page) => {
        const numberIn = (text) => Number(text.replaceAll(",", "").match(/\d+/)[0]);
        const all = numberIn(await page.textContent("#live-title"));
        assert.equal(await page.isVisible("#more-kinds"), true);
        while (await page.isVisible("#more-kinds")) {
            await page.click("#more-kinds");
            await settle(page);
        }
        const counts = await page
            .locator("#live .group")
            .evaluateAll((rows) => rows.map((row) => row.querySelector(".each")?.textContent ?? "1"));
        assert.equal(
            counts.map(numberIn).reduce((sum, count) => sum + count, 0),
            all,
        );
        const most = counts.map(numberIn).indexOf(Math.max(...counts.map(numberIn)));
        await page.locator("#live .group").nth(most).locator(".fold").click();
        await settle(page);
        const more = page.locator('#live [data-key="more"]');
        assert.equal(await more.count(), 1);
        while ((await more.count()) > 0) await more.click();
        assert.equal(await page.locator("#live .member").count(), numberIn(counts[most]));
    });
});

test("a button that was let go outside of the window drags nothing", () =>
    withPage({}, async (page) => {
        await press(page, "w", "w", "w");
        const before = await numbers(page);
        const [x, y] = await pointOf(page, "#area-0", 0.5, 0.5);
        await page.mouse.move(x, y);
        await finger(page, "pointerdown", "#area-0", 1, x, y); // and no pointerup comes
        await page.mouse.move(x + 50, y);
        await page.mouse.move(x + 100, y);
        await settle(page);
        assert.deepEqual(await numbers(page), before);
    }));

test("with the focus on a select, letters are keys of the page", () =>
    withPage({}, async (page) => {
        await page.focus("#axis");
        await clickAt(page, "#area-0", 0.8, 0.5);
        await page.focus("#axis");
        await press(page, "p", "w");
        assert.equal((await numbers(page)).axis, "time");
        assert.equal(await page.textContent("#moment-title"), "At the peak");
        await press(page, "ArrowDown");
        assert.equal((await numbers(page)).axis, "event");
    }));

test("what the pointer rests on is told anew when the view moves under it", () =>
    withPage({}, async (page) => {
        const [x, top] = await pointOf(page, "#bars", 0.5, 0);
        await page.mouse.move(x, top + 28); // the steps, under the ticks
        await settle(page);
        assert.match(await page.textContent("#tip"), /step \d+\n[\d.]+ [mµ]s$/);
        await page.selectOption("#axis", "event");
        await settle(page);
        assert.match(await page.textContent("#tip"), /step \d+\n[\d,]+ events$/);
        await page.mouse.move(...(await pointOf(page, "#area-0", 0.3, 0.5)));
        await settle(page);
        const before = await page.textContent("#tip");
        await page.mouse.wheel(60, 0);
        await page.mouse.wheel(0, -300);
        await page.mouse.wheel(300, 0);
        await settle(page);
        assert.notEqual(await page.textContent("#tip"), before);
        assert.equal(await page.isVisible("#tip"), true);
    }));

test("the tip is gone when a person types or scrolls, and comes back with the pointer", () =>
    withPage({}, async (page) => {
        const [x, y] = await pointOf(page, "#area-0", 0.4, 0.5);
        const isShown = async () => {
            await settle(page);
            return page.isVisible("#tip");
        };
        await page.mouse.move(x, y);
        assert.equal(await isShown(), true);
        await press(page, "w");
        assert.equal(await isShown(), false);
        await page.mouse.move(x + 1, y);
        assert.equal(await isShown(), true);
        await page.evaluate(() => {
            for (const each of [document.querySelector("main"), window]) each.scrollTo(0, 60);
        });
        assert.equal(await isShown(), false);
    }));

test("the tip is at most 240 px wide, beside the pointer, and never over a curve", () =>
    withPage({}, async (page) => {
        const curve = await curveOf(page);
        for (const [selector, step] of [
            ["#area-0", 0.03],
            ["#map", 0.1],
        ])
            for (let part = 0.01; part < 1; part += step) {
                const [x, y] = await pointOf(page, selector, part, 0.3 + 0.4 * Math.abs(Math.sin(99 * part)));
                await page.mouse.move(x, y);
                await settle(page);
                const tip = await page.locator("#tip").boundingBox();
                if (!tip) continue; // on unmapped memory
                assert.ok(tip.width <= 240, `${tip.width}`);
                assert.ok(
                    x < tip.x || x > tip.x + tip.width || y < tip.y || y > tip.y + tip.height,
                    `${selector} ${part}`,
                );
                const isOver = ([at, edge]) =>
                    edge !== null && at > tip.x && at < tip.x + tip.width && edge > tip.y && edge < tip.y + tip.height;
                assert.ok(!curve.some(isOver), `${selector} ${part}`);
            }
    }));

/**
 * Returns the upper edge of the first area in client pixels, by column of 4: where its pixels change from the background to a
 * colour; null where there is none.
 */
function curveOf(page) {
    return page.evaluate(() => {
        const canvas = document.getElementById("area-0");
        const { left, top, width, height } = canvas.getBoundingClientRect();
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const scale = canvas.width / width;
        const isColoured = (x, y) => {
            const at = 4 * (Math.floor(y * scale) * canvas.width + Math.floor(x * scale));
            const rgb = data.slice(at, at + 3);
            return Math.max(...rgb) - Math.min(...rgb) > 40;
        };
        return Array.from({ length: Math.floor((width - 94) / 4) }, (_, i) => {
            const x = 80 + 4 * i;
            let y = 20; // below the mark on the peak
            while (y < height && !isColoured(x, y)) y++;
            return [left + x, y < height ? top + y : null];
        });
    });
}

test("Shift+Enter in the search goes to the last block first", () =>
    withPage({}, async (page) => {
        await press(page, "/");
        await page.keyboard.type("e");
        await settle(page);
        await press(page, "Shift+Enter");
        const last = (await numbers(page)).selected;
        await press(page, "Enter", "Shift+Enter");
        assert.equal((await numbers(page)).selected, last);
        const blocks = makeSyntheticPage(3000, ["small", "kernels"]).runs[0].tables;
        const names = makeSyntheticPage(3000, ["small", "kernels"]).texts;
        const found = blocks.blocks.label.findLastIndex((label) =>
            [blocks.labels.op[label], blocks.labels.span[label]].some((text) => names[text].includes("e")),
        );
        assert.equal(last, found);
    }));

test("a command that was copied is gone once the page shows something else", () =>
    withPage({}, async (page) => {
        await press(page, "c");
        assert.equal(await page.isVisible("#command"), true);
        await press(page, "w");
        assert.equal(await page.isVisible("#command"), true, "it is still the one for what is shown");
        await press(page, ".");
        assert.equal(await page.isVisible("#command"), false);
        await press(page, "c");
        assert.equal(await page.isVisible("#command"), true);
        await press(page, "Escape");
        assert.equal(await page.isVisible("#command"), false);
    }));

test("on the screen and on paper the list of blocks and what it leaves out sum up", () =>
    withPage({}, async (page) => {
        const tell = () =>
            page.evaluate(() => {
                const isSeen = (element) => element.offsetHeight > 0;
                const groups = [...document.querySelectorAll("#live .group")].filter(isSeen);
                return {
                    counts: groups.map((row) =>
                        Number(/^([\d,]+) ×/.exec(row.querySelector(".each")?.textContent)?.[1] ?? 1),
                    ),
                    rest: [...document.querySelectorAll("#live-rest, #live-rest-printed")].find(isSeen).textContent,
                    title: document.getElementById("live-title").textContent,
                };
            });
        for (const [media, rows] of [
            ["screen", 40],
            ["print", 8],
        ]) {
            await page.emulateMedia({ media });
            const { counts, rest, title } = await tell();
            const numberIn = (text, pattern) => Number(pattern.exec(text)?.[1].replaceAll(",", "") ?? 0);
            const all = numberIn(title, /^([\d,]+) blocks/);
            const left = numberIn(rest, /kinds?, ([\d,]+) block/);
            assert.ok(counts.length === rows || left === 0, media);
            assert.equal(counts.reduce((sum, count) => sum + count, 0) + left, all, media);
        }
    }));

/** Returns the share of a PDF page that is coloured: neither white nor black nor grey. */
function colouredShare(path) {
    const picture = execFileSync("pdftoppm", ["-r", "40", "-f", "1", "-l", "1", path], { maxBuffer: 2 ** 26 });
    const head = /^P6\s+(\d+) (\d+)\s+255\s/.exec(picture.subarray(0, 40).toString("latin1"));
    let coloured = 0;
    for (let at = head[0].length; at < picture.length; at += 3) {
        const [r, g, b] = picture.subarray(at, at + 3);
        if (Math.max(r, g, b) - Math.min(r, g, b) > 40) coloured++;
    }
    return coloured / (head[1] * head[2]);
}

test("paper shows the charts, in light colours", { skip: noPoppler }, async () => {
    for (const scheme of ["light", "dark"])
        await withPage({ scheme }, async (page) => {
            const path = join(started.folder, `${scheme}.pdf`);
            await page.pdf({ path, format: "A4", printBackground: true });
            assert.ok(colouredShare(path) > 0.1, `${scheme}: ${colouredShare(path)}`);
        });
});

test("a page is printed on one sheet, with its legend", { skip: noPoppler }, async () => {
    for (const [name, url] of Object.entries(urls))
        await withOpened(started, url, {}, async (page) => {
            const path = join(started.folder, `${name}.pdf`);
            await page.pdf({ path, format: "A4", printBackground: true });
            assert.match(execFileSync("pdfinfo", [path], { encoding: "utf8" }), /^Pages: +1$/m, name);
            const text = execFileSync("pdftotext", [path, "-"], { encoding: "utf8" });
            for (const each of await page.locator("#legend button > span:first-of-type").allTextContents())
                assert.ok(text.includes(each), `${name}: ${each}`);
        });
});

test("the peak of a role alone is what p tells", () =>
    withPage({}, async (page) => {
        await page.click('#legend button:has-text("activation")');
        await press(page, "p");
        assert.match(await page.textContent("#said"), /^activation: [\d.]+ [MG]iB at its peak, step \d+ · /);
    }));

/** Chooses a format of "Save as", and returns the file's bytes. */
async function save(page, format) {
    await page.click("#menu-button");
    const [download] = await Promise.all([page.waitForEvent("download"), page.selectOption("#save", format)]);
    assert.equal(download.suggestedFilename(), `memtrace.${format.toLowerCase()}`);
    return readFileSync(await download.path());
}

test("what is seen is saved as numbers, as shapes, and as a picture", () =>
    withPage({}, async (page) => {
        const peak = await page.getAttribute("#moment-sizes tr:first-child td", "data-bytes");
        const rows = (await save(page, "CSV"))
            .toString()
            .trim()
            .split("\r\n")
            .map((row) => row.split(","));
        assert.deepEqual(rows[0].slice(0, 5), ["run", "event", "time_ns", "allocated_bytes", "reserved_bytes"]);
        assert.equal(String(Math.max(...rows.slice(1).map((row) => Number(row[3])))), peak);
        for (const row of rows.slice(1)) {
            const sum = row.slice(5).reduce((a, b) => a + Number(b), 0);
            assert.equal(sum, Number(row[3]));
        }
        const svg = (await save(page, "SVG")).toString();
        const shown = await page.evaluate((text) => {
            const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
            return [root.tagName, ...[...root.querySelectorAll("path > title")].map((each) => each.textContent)];
        }, svg);
        assert.deepEqual(new Set(shown), new Set(["svg", ...rows[0].slice(5)]));
        const png = await save(page, "PNG");
        assert.equal(png.subarray(1, 4).toString(), "PNG");
        const charts = await page.locator("#charts").boundingBox();
        assert.ok(png.readUInt32BE(16) > charts.width && png.readUInt32BE(20) > charts.height);
    }));

test("no field of CSV is a formula", () => {
    assert.equal(csvField("=cmd()"), "'=cmd()");
    assert.equal(csvField('a "b", c'), '"a ""b"", c"');
    assert.equal(csvField(-1), "-1");
});
