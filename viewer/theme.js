/** Light or dark: the reader's choice, and light on paper. */
import { readTheme } from "./colors.js";

/** @param {string} theme */
export function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
}

/** @param {Scene} scene */
export function toggleTheme(scene) {
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    scene.set({ theme: readTheme(document.documentElement) });
}

/**
 * Prints in light colours, since paper is white, and in the size of the paper.
 * @param {Scene} scene
 * @param {Painter} painter
 */
export function printInLight(scene, painter) {
    let before = "";
    /** @param {string} theme */
    const drawAs = (theme) => {
        setTheme(theme);
        scene.theme = readTheme(document.documentElement);
        painter.fitted = [];
        painter.draw();
    };
    matchMedia("print").addEventListener("change", ({ matches }) => {
        if (matches) before = document.documentElement.dataset.theme ?? "";
        drawAs(matches ? "light" : before);
    });
}
