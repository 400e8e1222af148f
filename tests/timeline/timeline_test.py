#!/usr/bin/python3
"""The page of `braid timeline` in headless Chromium, with a real mouse and a real keyboard.

    tests/timeline/timeline_test.py MAKE_PAGES [--braid COMMAND] [--pictures FOLDER]

MAKE_PAGES is the program of make_pages.cpp. Needs Debian's python3-selenium, chromium and chromium-driver.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

LOAD_X, FILL_Y, SCALE_Y, SUM_Y, NEXT_X, STORE_Y, CLEAR_Y, REPORT, SCRATCH_Z = range(9)  # ops of small.html
PATH_COLOUR = {"light": (212, 20, 90), "dark": (255, 79, 134)}

options = argparse.Namespace()
pages = None
browser = None


def setUpModule():
    global browser, pages
    pages = tempfile.TemporaryDirectory()
    subprocess.run([options.make_pages, pages.name], check=True)
    chrome = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,860"):
        chrome.add_argument(argument)
    chrome.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=chrome)


def tearDownModule():
    if browser:
        browser.quit()
    pages.cleanup()


def js(script, *arguments):
    return browser.execute_script(script, *arguments)


class timeline(unittest.TestCase):
    def open(self, name, width=1400, height=860, scheme="light"):
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        self.prefer(scheme)
        browser.get(pathlib.Path(pages.name, name + ".html").as_uri())
        self.settle()

    def prefer(self, scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def tearDown(self):
        self.assertEqual([], browser.get_log("browser"), "the console has something to say")

    def settle(self):
        """Until the view stands still and was drawn."""
        for _ in range(200):
            moving = browser.execute_async_script(
                "const done = arguments[0];"
                "requestAnimationFrame(() => requestAnimationFrame(() => done(braidTimeline.isMoving)))"
            )
            if not moving:
                return
        self.fail("the view never stands still")

    def picture(self, name):
        if options.pictures:
            browser.save_screenshot(str(pathlib.Path(options.pictures, name + ".png")))

    # The pointer, in pixels of the page.

    def stage(self):
        r = js("const r = document.getElementById('stage').getBoundingClientRect(); return [r.left, r.top]")
        return r[0], r[1]

    def point_of(self, op):
        left, top = self.stage()
        box = js("return braidTimeline.boxOf(arguments[0])", op)
        return left + box["x"] + box["w"] / 2, top + box["y"] + box["h"] * 0.85

    def point_on_arrow(self, wait, part=0.5):
        left, top = self.stage()
        x, y = js("return braidTimeline.arrowPoint(arguments[0], arguments[1])", wait, part)
        return left + x, top + y

    def move(self, x, y):
        chain = ActionChains(browser, duration=0)
        chain.w3c_actions.pointer_action.move_to_location(round(x), round(y))
        chain.perform()

    def click(self, x, y):
        self.move(x, y)
        ActionChains(browser).click().perform()
        self.settle()

    def wheel(self, x, y, by, times=1):
        chain = ActionChains(browser, duration=0)
        for _ in range(times):
            chain.scroll_from_origin(ScrollOrigin.from_viewport(round(x), round(y)), 0, by)
        chain.perform()
        self.settle()

    def drag(self, x, y, dx, dy=0, steps=5):
        chain = ActionChains(browser, duration=10)
        pointer = chain.w3c_actions.pointer_action
        pointer.move_to_location(round(x), round(y)).pointer_down()
        for i in range(1, steps + 1):
            pointer.move_to_location(round(x + dx * i / steps), round(y + dy * i / steps))
        pointer.pointer_up()
        chain.perform()
        self.settle()

    def keys(self, *text):
        ActionChains(browser).send_keys(*text).perform()
        self.settle()

    def text(self, selector):
        return browser.find_element(By.CSS_SELECTOR, selector).text

    def press(self, identifier):
        browser.find_element(By.ID, identifier).click()
        self.settle()

    def is_shown(self, identifier):
        return browser.find_element(By.ID, identifier).is_displayed()

    def range(self):
        return js("return braidTimeline.range")

    def selected(self):
        return js("return braidTimeline.selected")

    def pixels_of(self, colour):
        return js(
            "const c = document.getElementById('canvas'), [r, g, b] = arguments[0];"
            "const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', { willReadFrequently: true });"
            "copy.drawImage(c, 0, 0);"
            "const p = copy.getImageData(0, 0, c.width, c.height).data; let n = 0;"
            "for (let i = 0; i < p.length; i += 4) n += p[i] === r && p[i + 1] === g && p[i + 2] === b; return n",
            colour,
        )

    # What holds.

    def test_a_page_shows_its_figures_and_a_row_for_each_stream_and_loads_nothing(self):
        self.open("small")
        self.assertEqual("small.json", self.text("h1"))
        figures = self.text("#figures").replace("\n", " ")
        for figure in ("took 995 µs", "ops 9", "streams 3", "waits 9", "critical path 91 % ops"):
            self.assertIn(figure, figures)
        names = [e.text for e in browser.find_elements(By.CSS_SELECTOR, "#names .row b")]
        self.assertEqual(["stream 0", "stream 1", "stream 2"], names)
        self.assertIn("peak 16.0 MiB", self.text("#memoryName").replace("\n", " "))
        self.assertEqual(0, js("return performance.getEntriesByType('resource').length"))
        self.assertGreater(js("return braidTimeline.lastDrawn"), 15)
        self.picture("small-light")

    def test_the_page_of_a_real_run(self):
        if not options.braid:
            self.skipTest("no --braid: the command that makes it")
        page = pathlib.Path(pages.name, "run.html")
        command = [options.braid, "run", "cholesky", "--backend", "cpu", "--size", "1024", "--html", str(page)]
        self.assertIn("verified       yes", subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        self.open("run", height=800)
        self.assertIn("ops 120", self.text("#figures").replace("\n", " "))
        self.assertEqual(8, len(browser.find_elements(By.CSS_SELECTOR, "#names .row b")))
        self.picture("run-light")
        self.prefer("dark")
        self.settle()
        self.picture("run-dark")
        self.prefer("light")
        self.keys("/", "syrk 4,2", Keys.ENTER)
        self.assertEqual("syrk 4,2", self.text("#panel h2"))
        self.assertIn("reads 'A[4,2]'", self.text("#panel"))
        self.assertIn("reads and writes 'A[4,4]'", self.text("#panel"))
        self.picture("run-op-light")

    def test_each_wait_has_the_sentence_of_explain(self):
        self.open("small")
        expected = pathlib.Path(pages.name, "small.sentences").read_text(encoding="utf-8").splitlines()
        self.assertEqual(expected, [js("return braidTimeline.sentence(arguments[0])", w) for w in range(len(expected))])

    def test_a_click_on_an_op_tells_what_it_waited_for_and_who_waited_for_it(self):
        self.open("small")
        self.assertFalse(self.is_shown("panel"))
        self.click(*self.point_of(SCALE_Y))
        panel = self.text("#panel")
        self.assertEqual("scale y", self.text("#panel h2"))
        for part in ("stream 1, op 2", "on the critical path", "250 µs", "reads 'x' (8.00 MiB)", "reads and writes 'y'"):
            self.assertIn(part, panel)
        self.assertIn("stream 1 waited 118 µs for 'load x' on stream 0: it reads 'x' that it wrote", self.text("#waitedFor"))
        by = self.text("#waitedBy")
        self.assertIn("stream 2 waited 466 µs for 'scale y' on stream 1: it reads 'y' that it wrote", by)
        self.assertIn("stream 0 waited 270 µs for 'scale y' on stream 1: it writes 'x' that it read", by)
        self.assertEqual(3, len(browser.find_elements(By.CSS_SELECTOR, "#waitedBy .go")))
        self.picture("panel-light")
        self.keys(Keys.ESCAPE)
        self.assertFalse(self.is_shown("panel"))
        self.assertEqual(-1, self.selected())

    def test_the_panel_leads_to_the_other_ops(self):
        self.open("small")
        self.click(*self.point_of(SCALE_Y))
        browser.find_element(By.CSS_SELECTOR, "#waitedFor .go").click()
        self.settle()
        self.assertEqual(LOAD_X, self.selected())
        self.assertEqual("load x", self.text("#panel h2"))
        browser.find_element(By.CSS_SELECTOR, "#waitedBy .go").click()
        self.settle()
        self.assertEqual(SCALE_Y, self.selected())
        begin, end = self.range()
        self.assertTrue(begin < 350e3 < end, "the op is in view")
        browser.find_element(By.CSS_SELECTOR, "#panel .steps button:last-child").click()
        self.settle()
        self.assertEqual(CLEAR_Y, self.selected())

    def test_a_click_beside_the_ops_closes_the_panel_and_a_failed_op_says_so(self):
        self.open("small")
        self.click(*self.point_of(SCRATCH_Z))
        self.assertIn("failed", self.text("#panel"))
        left, top = self.stage()
        self.click(left + 300, top + js("return braidTimeline.size.memoryTop") + 30)
        self.assertFalse(self.is_shown("panel"))

    def test_the_reason_of_a_wait_shows_when_the_pointer_is_on_its_arrow(self):
        self.open("small")
        for wait in js("return braidTimeline.arrows"):
            # Where arrows lie close to each other another one may be nearer at one place.
            shown = []
            for part in (0.5, 0.3, 0.7, 0.15):
                self.move(*self.point_on_arrow(wait, part))
                self.assertTrue(self.is_shown("tip"))
                shown.append(self.text("#tip").split("\n")[-1])
            self.assertIn(js("return braidTimeline.sentence(arguments[0])", wait), shown)
        self.picture("arrow-light")

    def test_an_op_tells_its_name_and_times_when_the_pointer_is_on_it(self):
        self.open("small")
        self.move(*self.point_of(SUM_Y))
        self.assertIn("sum y", self.text("#tip"))
        self.assertIn("140 µs, from 495 µs to 635 µs", self.text("#tip"))
        self.move(5, 5)
        self.assertFalse(self.is_shown("tip"))

    def test_search_finds_highlights_and_jumps(self):
        self.open("cholesky")
        self.keys("/")
        self.keys("potrf")
        self.assertEqual("9", self.text("#hits"))
        self.keys(Keys.ENTER)
        self.assertEqual("1 of 9", self.text("#hits"))
        self.assertEqual("potrf 0", self.text("#panel h2"))
        self.keys(Keys.ENTER)
        self.assertEqual("potrf 1", self.text("#panel h2"))
        self.picture("search-light")
        self.press("previous")
        self.press("previous")
        self.assertEqual("9 of 9", self.text("#hits"))
        self.assertEqual("potrf 8", self.text("#panel h2"))
        js("document.activeElement.blur()")
        self.keys("n")
        self.assertEqual("potrf 0", self.text("#panel h2"))
        self.keys("p")
        self.assertEqual("potrf 8", self.text("#panel h2"))
        self.keys("/")
        self.keys(Keys.ESCAPE)
        self.assertEqual("", self.text("#hits"))
        self.assertEqual("", js("return document.getElementById('search').value"))
        self.keys("/")
        self.keys("no such op")
        self.assertEqual("none", self.text("#hits"))

    def test_the_wheel_zooms_at_the_pointer_and_a_drag_moves(self):
        self.open("cholesky")
        x, y = self.point_of(80)
        left, _ = self.stage()
        width = js("return braidTimeline.size.width")

        def time_at(px):
            begin, end = self.range()
            return begin + (px - left) / width * (end - begin)

        whole, under = self.range(), time_at(round(x))
        self.wheel(x, y, -300, 3)
        near = self.range()
        self.assertLess(near[1] - near[0], 0.5 * (whole[1] - whole[0]))
        self.assertAlmostEqual(under, time_at(round(x)), delta=(near[1] - near[0]) / 100)
        self.drag(x, y, -200)
        moved = self.range()
        self.assertAlmostEqual(moved[1] - moved[0], near[1] - near[0], delta=1)
        self.assertAlmostEqual(moved[0] - near[0], 200 / width * (near[1] - near[0]), delta=(near[1] - near[0]) / 100)
        self.assertEqual(-1, self.selected(), "a drag is no click")
        self.picture("zoomed-light")
        self.wheel(x, y, 600, 5)
        far = self.range()
        self.assertLess(far[1] - far[0], 1.1 * (whole[1] - whole[0]), "there is an end to zooming out")
        self.wheel(x, y, -1000, 20)
        self.assertGreater(self.range()[1] - self.range()[0], 1)
        self.press("fit")
        for now, then in zip(self.range(), whole):
            self.assertAlmostEqual(now, then, delta=(whole[1] - whole[0]) / 100)

    def test_the_overview_leads_to_any_place(self):
        self.open("cholesky")
        self.wheel(*self.point_of(80), -600, 3)
        left, top = self.stage()
        width = js("return braidTimeline.size.width")
        self.click(left + width * 0.25, top + 20)
        begin, end = self.range()
        self.assertAlmostEqual(0.25, (begin + end) / 2 / 3.11e6, delta=0.02)
        self.drag(left + width * 0.25, top + 20, width * 0.5)
        begin, end = self.range()
        self.assertAlmostEqual(0.75, (begin + end) / 2 / 3.11e6, delta=0.02)

    def test_keys_zoom_and_move(self):
        self.open("cholesky")
        for nearer, farther in (("w", "s"), ("+", "-")):
            before = self.range()
            self.keys(nearer)
            near = self.range()
            self.assertLess(near[1] - near[0], 0.8 * (before[1] - before[0]))
            for right, left in (("d", "a"), (Keys.ARROW_RIGHT, Keys.ARROW_LEFT)):
                at = self.range()[0]
                self.keys(right)
                self.assertGreater(self.range()[0], at)
                self.keys(left)
                self.assertAlmostEqual(self.range()[0], at, delta=(near[1] - near[0]) / 50)
            self.keys(farther)
            self.assertGreater(self.range()[1] - self.range()[0], 1.2 * (near[1] - near[0]))
        self.keys("w", "w", "f")
        self.assertGreater(self.range()[1] - self.range()[0], 3.1e6)

    def test_the_critical_path_and_the_arrows_can_be_hidden(self):
        self.open("small")
        on = self.pixels_of(PATH_COLOUR["light"])
        self.press("path")
        self.assertEqual("false", browser.find_element(By.ID, "path").get_attribute("aria-pressed"))
        self.assertLess(self.pixels_of(PATH_COLOUR["light"]), on / 4)
        self.keys("c")
        self.assertEqual(on, self.pixels_of(PATH_COLOUR["light"]))
        self.assertEqual(8, len(js("return braidTimeline.arrows")), "all but the wait for what is not in the trace")
        self.press("arrows")
        self.assertEqual(0, len(js("return braidTimeline.arrows")))
        self.click(*self.point_of(SCALE_Y))
        self.assertEqual(4, len(js("return braidTimeline.arrows")), "those of the selected op are always there")

    def test_light_and_dark_follow_the_system_until_the_button_says_otherwise(self):
        def theme():
            return js("return [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]")

        self.open("cholesky", scheme="dark")
        self.assertEqual(["dark", "rgb(14, 17, 22)"], theme())
        self.assertGreater(self.pixels_of(PATH_COLOUR["dark"]), 500)
        self.picture("cholesky-dark")
        self.prefer("light")
        self.settle()
        self.assertEqual(["light", "rgb(255, 255, 255)"], theme())
        self.assertGreater(self.pixels_of(PATH_COLOUR["light"]), 500)
        self.picture("cholesky-light")
        self.press("theme")
        self.assertEqual("dark", theme()[0])
        self.assertGreater(self.pixels_of(PATH_COLOUR["dark"]), 500)
        self.assertEqual(0, self.pixels_of(PATH_COLOUR["light"]))

    def test_a_narrow_window_has_room_for_all(self):
        for width, height in ((380, 700), (640, 400), (900, 600)):
            self.open("small", width, height)
            self.assertLessEqual(js("return document.documentElement.scrollWidth"), width)
            self.assertLessEqual(js("return document.documentElement.scrollHeight"), height)
            for identifier in ("search", "fit", "path", "theme"):
                box = browser.find_element(By.ID, identifier).rect
                self.assertLessEqual(box["x"] + box["width"], width, identifier)
            self.assertGreater(js("return braidTimeline.size.width"), width / 2)
            self.click(*self.point_of(LOAD_X))
            self.assertTrue(self.is_shown("panel"))
            self.picture(f"narrow-{width}")

    def test_many_streams_scroll(self):
        self.open("large", 1000, 420)
        self.wheel(60, 250, 200)
        first = browser.find_element(By.CSS_SELECTOR, "#names .row").rect["y"]
        self.wheel(60, 250, -1000)
        self.assertGreater(browser.find_element(By.CSS_SELECTOR, "#names .row").rect["y"], first)

    def test_every_button_and_field_has_a_name(self):
        self.open("small")
        self.click(*self.point_of(SCALE_Y))
        for control in browser.find_elements(By.CSS_SELECTOR, "button, input"):
            self.assertTrue(control.accessible_name, control.get_attribute("outerHTML"))

    def test_an_empty_trace_says_so(self):
        self.open("empty")
        self.assertIn("No ops in this trace", self.text("main"))
        self.keys("f", "w", "d", "/", "x", Keys.ENTER, Keys.ESCAPE)
        self.picture("empty-light")

    def test_labels_are_never_taken_for_html(self):
        self.open("hostile")
        self.assertIn("document.title='taken'", self.text("h1"))
        self.assertNotEqual("taken", browser.title)
        self.assertEqual(0, len(browser.find_elements(By.CSS_SELECTOR, "img, #names b b, main script")))
        self.assertIn("12 records were dropped", self.text("#notice"))
        for op in range(0, 22, 2):
            self.click(*self.point_of(op))
            self.assertEqual(op, self.selected())
            self.assertTrue(self.text("#panel h2"))
        self.assertEqual("</script><script>document.title='taken'</script>", js("return braidTimeline.label(0)"))
        self.assertEqual("not UTF-8: \ufffd\ufffd\ufffd(", js("return braidTimeline.label(8)"))
        self.assertEqual("control \x01\x02\0\x7f\n\r\t end", js("return braidTimeline.label(6)"))
        self.picture("hostile-light")

    def test_a_hundred_thousand_ops_zoom_and_pan(self):
        begun = time.monotonic()
        self.open("large")
        print(f"\n100,000 ops: opened and drawn in {time.monotonic() - begun:.2f} s", end="")
        self.picture("large-light")
        js(
            "const seen = window.seen = { between: [], times: [], counts: [] }; let last = 0, frames = 0;"
            "(function tick(now) { if (last) seen.between.push(now - last); last = now;"
            " if (frames !== braidTimeline.frames) { frames = braidTimeline.frames;"
            "  seen.times.push(braidTimeline.drawTime); seen.counts.push(braidTimeline.lastDrawn); }"
            " requestAnimationFrame(tick); })(performance.now())"
        )
        x, y = self.point_of(50000)
        for by in (-120, 120):
            for _ in range(4):
                self.wheel(x, y, by, 10)
                self.drag(x, y, 300 if by > 0 else -300, steps=20)
            self.keys("w", "d", "d", "a", "s")
        between, times, counts = (sorted(js("return seen." + name)) for name in ("between", "times", "counts"))
        for name, values, unit in (("between frames", between, "ms"), ("drawing", times, "ms"), ("drawn", counts, "")):
            print(
                f"\n  {name}: {len(values)} frames, median {values[len(values) // 2]:.1f} {unit}, "
                f"95 % under {values[int(len(values) * 0.95)]:.1f}, most {values[-1]:.1f}",
                end="",
            )
        print()
        self.assertGreater(len(times), 50)
        # Columns of two pixels in each row, what stands between them, arrows and the path; never the ops.
        size = js("return braidTimeline.size")
        self.assertLess(counts[-1], size["rows"] * size["width"] + 2000)
        self.assertLess(times[len(times) // 2], 100)
        self.keys("/")
        self.keys("gemm 60,50,40", Keys.ENTER)
        self.assertEqual("gemm 60,50,40", self.text("#panel h2"))
        self.assertEqual("1 of 1", self.text("#hits"))
        self.assertLess(self.range()[1] - self.range()[0], 10e6, "near enough to see it")
        self.picture("large-zoomed-light")
        self.prefer("dark")
        self.settle()
        self.picture("large-zoomed-dark")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("make_pages", help="the program of make_pages.cpp")
    parser.add_argument("--braid", help="the command, for the page of a real run")
    parser.add_argument("--pictures", help="a folder for pictures of what was seen")
    options, rest = parser.parse_known_args()
    if options.pictures:
        pathlib.Path(options.pictures).mkdir(parents=True, exist_ok=True)
    unittest.main(argv=sys.argv[:1] + rest)
