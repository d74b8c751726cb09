"""A real Chromium for the panel: its headless shell (a third of what the whole browser takes), with a fresh profile, gone
with the test; and axe-core, which looks for faults that keep people out."""
import base64
import contextlib
import os
import re

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from harness.wait import patience, wait_until

FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync",
         "--disable-gpu", "--window-size=1280,900", "--remote-debugging-pipe",  # it ends when its driver does
         # One process for all pages, and no picture that moves by itself: a tenth of what the browser takes.
         "--disable-site-isolation-trials", "--renderer-process-limit=1", "--disable-extensions", "--force-prefers-reduced-motion"]
STANDS = """(() => {
    const Real = Date;
    let now = %d;
    globalThis.stepClock = (seconds) => { now += 1000 * seconds; };
    globalThis.Date = class extends Real {
        constructor(...given) { super(...(given.length ? given : [now])); }
        static now() { return now; }
    };
})()"""  # the pages' clock; timers go on
UNREACHED = "net::ERR_"  # how the browser's log names a server that is not there


class Browser:
    def __init__(self, directory, languages="de-DE,de"):
        options = Options()
        options.binary_location = "/usr/lib/chromium/chromium-headless-shell"
        options.set_capability("browserName", "chrome-headless-shell")  # otherwise its driver waits for a window
        for flag in [*FLAGS, f"--user-data-dir={directory}", f"--accept-lang={languages}"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        # the browser's own language, in which it takes dates, is not the reader's: always the same here
        own = {**os.environ, "LANGUAGE": "en_US", "LANG": "en_US.UTF-8"}
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver", env=own), options=options)
        self.driver.set_script_timeout(patience(180))

    def close(self):
        self.driver.quit()

    def open(self, url, width=1280, scheme="light"):
        self.view(width, scheme)
        self.driver.get("about:blank")  # another #... of the same page would not load it again
        self.driver.get(url)

    @contextlib.contextmanager
    def at(self, when, zone):
        """Pages opened meanwhile have that time, until they are told to stepClock(), and the reader's machine that zone."""
        tell = self.driver.execute_cdp_cmd
        made = tell("Page.addScriptToEvaluateOnNewDocument", {"source": STANDS % (1000 * when.timestamp())})
        tell("Emulation.setTimezoneOverride", {"timezoneId": zone})
        yield
        tell("Emulation.setTimezoneOverride", {"timezoneId": ""})
        tell("Page.removeScriptToEvaluateOnNewDocument", made)

    def view(self, width, scheme="light"):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                    {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def click(self, selector):
        """Drawn anew between the look and the click, nothing was clicked: again."""
        def clicked():
            try:
                self.one(selector).click()
            except StaleElementReferenceException:
                return False
            return True
        wait_until(clicked, 60, f"a click on {selector}")

    def text(self, selector):
        """What a reader sees there; in one go, so that nothing is drawn anew in between."""
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector).strip()

    def number(self, selector):
        digits = re.sub(r"\D", "", self.text(selector))
        return int(digits) if digits else None

    def rows(self, selector):
        """The rows of the table there: texts of its cells; of what is folded away, too."""
        return self.run("""return [...document.querySelectorAll(arguments[0] + " tbody tr")]
            .map((row) => [...row.children].map((cell) => cell.textContent.trim()))""", selector)

    def facts(self, selector):
        """The first list of terms there: term -> text."""
        return self.run("""return Object.fromEntries([...document.querySelectorAll(arguments[0] + " dt")]
            .map((term) => [term.textContent, term.nextElementSibling.textContent]))""", selector)

    def unfold(self):
        self.run("for (const folded of document.querySelectorAll('details')) folded.open = true")

    def press(self, *keys):
        """Keys to whatever has the focus."""
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def tab_to(self, selector, most=60):
        """By the tab key alone; it fails when the key does not get there."""
        for _ in range(most):
            if self.run("return document.activeElement.matches(arguments[0])", selector):
                return self
            self.press(Keys.TAB)
        raise AssertionError(f"{selector} cannot be reached with the tab key")

    def complaints(self, unreached=False):
        """What the browser's console has as warnings and errors since the last time; unreached: a server was away."""
        return [line["message"] for line in self.driver.get_log("browser")
                if line["level"] in ("WARNING", "SEVERE") and not (unreached and UNREACHED in line["message"])]

    def faults(self, axe):
        """axe-core's findings that are serious or critical, short."""
        self.run(axe)
        found = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run(document).then((result) => done(result.violations))")
        return [(fault["id"], [node["html"][:160] for node in fault["nodes"]]) for fault in found
                if fault["impact"] in ("serious", "critical")]

    def screenshot(self, path):
        height = self.run("return document.documentElement.scrollHeight")
        width = self.run("return innerWidth")
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {
            "captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}})
        with open(path, "wb") as out:
            out.write(base64.b64decode(shot["data"]))
