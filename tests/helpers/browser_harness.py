"""A headless Chromium for tests of the web page, and what they do with it."""

import json
import time
from pathlib import Path

from needs import chromium_programs
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,1000",
)
_PATIENCE_S = 300


class Page:
    """The page in a browser of its own, with an empty profile."""

    def __init__(self, folder):
        browser, driver = chromium_programs()  # type: ignore[misc]
        self.downloads = Path(folder) / "downloads"
        self.downloads.mkdir()
        options = Options()
        options.binary_location = browser
        for flag in (*FLAGS, f"--user-data-dir={Path(folder) / 'profile'}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(driver))
        self.devtools(
            "Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads)
        )

    def close(self):
        self.driver.quit()

    def devtools(self, command, **values):
        return self.driver.execute_cdp_cmd(command, values)

    def script(self, text, *values):
        return self.driver.execute_script(text, *values)

    def open(self, address, ready=True):
        """Open the page afresh, and wait until it has read what the server offers."""
        self.driver.get("about:blank")
        self.driver.get(address)
        if ready:
            self.until(self.is_ready)

    def is_ready(self):
        return self.script("return document.documentElement.dataset.ready") == "yes"

    def until(self, found, patience_s=_PATIENCE_S):
        """Wait until a function finds something, and return it."""
        end = time.monotonic() + patience_s
        while True:
            try:
                value = found()
            except (StaleElementReferenceException, IndexError):
                value = None
            if value:
                return value
            assert time.monotonic() < end, (self.text("answer"), self.text("errors"))
            time.sleep(0.03)

    def get(self, name):
        return self.driver.find_element(By.ID, name)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, name):
        return self.get(name).text

    def value(self, name):
        return self.get(name).get_attribute("value")

    def fill(self, name, text):
        field = self.get(name)
        field.clear()
        field.send_keys(text)

    def choose(self, name, value):
        Select(self.get(name)).select_by_visible_text(value)

    def click(self, name):
        self.get(name).click()

    def load(self, example):
        """Load a stored example."""
        self.choose("example", example)
        self.click("load")
        # The button waits for the answer; the document may hold the same example from before.
        self.until(lambda: self.get("load").is_enabled())
        assert f'"name": "{example}"' in self.value("document")

    def give(self, content):
        """Paste a document."""
        self.script(
            "const area = document.getElementById('document'); area.value = arguments[0];"
            "area.dispatchEvent(new Event('input', {bubbles: true}));",
            json.dumps(content),
        )

    def run(self):
        """Run what is asked, and return the verdict."""
        self.click("run")
        return self.verdict()

    def verdict(self):
        return self.until(lambda: self.all("#result .verdict")[0].text)

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    @property
    def focused(self):
        return self.driver.switch_to.active_element

    def downloaded(self, ending):
        """Return the file that has just been downloaded."""

        def complete():
            return [f for f in self.downloads.glob(f"*.{ending}") if f.stat().st_size]

        (file,) = self.until(complete)
        return file

    def requests(self):
        """Return the addresses that the browser has asked for since this was last called."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found

    def complaints(self):
        """Return what the console says of scripts and of the content security policy."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] in ("WARNING", "SEVERE") and entry["source"] != "network"
        ]
