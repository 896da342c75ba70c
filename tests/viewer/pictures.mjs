/** Takes screenshots of pages: node pictures.mjs FOLDER PAGE.html … */
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { settle, startBrowser } from "./browser.mjs";

const SIZES = [
    [1440, 900],
    [1280, 800],
    [900, 1200],
];

const [folder, ...pages] = process.argv.slice(2);
const started = await startBrowser();
for (const path of pages)
    for (const [width, height] of SIZES)
        for (const scheme of ["light", "dark"]) {
            const page = await started.open(pathToFileURL(path).href, { width, height, scheme });
            await settle(page);
            await page.screenshot({ path: join(folder, `${basename(path, ".html")}-${width}-${scheme}.png`) });
            for (const problem of page.problems) console.error(problem);
            await page.context().close();
        }
await started.close();
