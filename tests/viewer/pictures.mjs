/**
 * Takes screenshots of pages:
 *
 *   node pictures.mjs FOLDER PAGE.html …             at three sizes, light and dark
 *   node pictures.mjs --one 1280x800 OUT.png PAGE.html
 */
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { settle, startBrowser } from "./browser.mjs";

const SIZES = [
    [1440, 900],
    [1280, 800],
    [900, 1200],
];

async function takePicture(started, page, [width, height], scheme, path) {
    const opened = await started.open(pathToFileURL(page).href, { width, height, scheme });
    await settle(opened);
    await opened.screenshot({ path });
    for (const problem of opened.problems) console.error(problem);
    await opened.context().close();
}

const words = process.argv.slice(2);
const started = await startBrowser();
if (words[0] === "--one") {
    const [, size, path, page] = words;
    await takePicture(started, page, size.split("x").map(Number), "light", path);
} else {
    const [folder, ...pages] = words;
    for (const page of pages)
        for (const size of SIZES)
            for (const scheme of ["light", "dark"])
                await takePicture(
                    started,
                    page,
                    size,
                    scheme,
                    join(folder, `${basename(page, ".html")}-${size[0]}-${scheme}.png`),
                );
}
await started.close();
