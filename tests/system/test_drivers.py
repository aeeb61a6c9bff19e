from pathlib import Path

import pytest

from xoptim.system import drivers


def test_the_driver_of_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, str] = {}
    monkeypatch.setattr(drivers, "set_default_variable", found.setdefault)
    monkeypatch.setattr(drivers, "_FOLDERS", (str(tmp_path / "none"), str(tmp_path)))
    assert drivers.software_driver() is None
    drivers.use_software_driver()
    assert found == {}
    driver = tmp_path / "vk_swiftshader_icd.json"
    driver.write_text("{}")
    assert drivers.software_driver() == driver
    drivers.use_software_driver()
    assert found == {"VK_ICD_FILENAMES": str(driver)}
