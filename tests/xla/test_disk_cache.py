"""The folder of compiled programs: bounded, whole, and nobody else's."""

from __future__ import annotations

import json
import logging
import os
import threading

import pytest

from anabranch.cli import main as command
from anabranch.xla import disk_cache
from anabranch.xla.disk_cache import DiskCache

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="modes of files are looked at where there are any")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def _path(cache, key):
    return cache._path(key)


def test_what_was_put_is_there_for_the_next_process(folder):
    DiskCache(folder).put("a", b"one", b"two")
    cache = DiskCache(folder)
    assert cache.get("a") == b"onetwo"
    assert cache.get("b") is None
    assert (cache.hits, cache.misses) == (1, 1)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert _path(cache, "a").stat().st_mode & 0o077 == 0
    assert [path.name for path in folder.iterdir()] == ["a.xla"]


def test_looking_makes_no_folder(folder):
    cache = DiskCache(folder)
    assert cache.get("a") is None
    assert not cache.has("a")
    assert cache.info() == (str(folder), "", 0, 0, disk_cache.LIMIT)
    assert not folder.exists()


@pytest.mark.parametrize("damage", ["truncated", "torn", "foreign", "empty"])
def test_a_damaged_file_is_a_miss_and_goes(folder, damage):
    cache = DiskCache(folder)
    cache.put("a", bytes(range(200)))
    path = _path(cache, "a")
    whole = path.read_bytes()
    path.write_bytes(
        {
            "truncated": whole[:-1],
            "torn": whole[:100] + bytes(50) + whole[150:],
            "foreign": b"another kind of file",
            "empty": b"",
        }[damage]
    )
    assert cache.get("a") is None
    assert not path.exists()
    cache.put("a", b"anew")
    assert cache.get("a") == b"anew"


def test_what_was_used_longest_ago_goes_first(folder):
    cache = DiskCache(folder, limit=4000)
    for i, key in enumerate("abc"):
        cache.put(key, bytes(1000))
        os.utime(_path(cache, key), (i, i))
    assert cache.get("a") is not None  # used now
    cache.put("d", bytes(1500))
    assert {key for key in "abcd" if cache.has(key)} == {"a", "c", "d"}
    assert cache.info().size <= 4000
    cache.put("e", bytes(5000))  # larger than all may be
    assert not cache.has("e")
    assert cache.has("d")


def test_what_was_never_finished_is_removed_later(folder):
    cache = DiskCache(folder)
    cache.put("a", b"a")
    old, new = folder / "old.tmp", folder / "new.tmp"
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    cache.put("b", b"b")
    assert not old.exists()
    assert new.exists()


def test_many_writers_of_one_file(folder):
    caches = [DiskCache(folder) for _ in range(8)]
    contents = [bytes([i]) * 100_000 for i in range(8)]
    wrong = []

    def work(cache, content):
        for _ in range(20):
            cache.put("a", content)
            found = cache.get("a")
            if found not in contents:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(caches, contents, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert [path.name for path in folder.iterdir()] == ["a.xla"]


def _warned(cache, caplog):
    with caplog.at_level(logging.INFO, logger="anabranch"):
        cache.put("a", b"a")
        cache.put("a", b"a")
        assert cache.get("a") is None
    (record,) = caplog.records
    return record


def test_a_folder_that_others_can_write_to_is_refused(folder, caplog):
    folder.mkdir()
    folder.chmod(0o770)
    record = _warned(DiskCache(folder), caplog)
    assert record.levelname == "WARNING"
    assert f"chmod 700 {folder}" in record.getMessage()
    assert not list(folder.iterdir())


def test_somebody_elses_folder_is_refused(folder, caplog, monkeypatch):
    folder.mkdir(mode=0o700)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert f"belongs to user {owner}, this is user {owner + 1}" in _warned(DiskCache(folder), caplog).getMessage()


def test_a_link_is_refused(folder, tmp_path, caplog):
    (tmp_path / "there").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "there")
    assert "is not a folder" in _warned(DiskCache(folder), caplog).getMessage()


def test_a_folder_in_a_place_where_others_can_put_another_is_refused(tmp_path, caplog):
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    message = _warned(DiskCache(place / "cache"), caplog).getMessage()
    assert f"chmod go-w {place}" in message


def test_a_folder_behind_a_link_is_judged_by_where_it_is(tmp_path, caplog):
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    (tmp_path / "link").symlink_to(place)
    assert "can replace what is in it" in _warned(DiskCache(tmp_path / "link" / "cache"), caplog).getMessage()


def test_a_sticky_folder_is_as_good_as_ones_own(tmp_path):
    place = tmp_path / "tmp"
    place.mkdir()
    place.chmod(0o1777)
    cache = DiskCache(place / "cache")
    cache.put("a", b"a")
    assert cache.get("a") == b"a"


def test_a_file_that_others_can_write_to_is_not_read(folder):
    cache = DiskCache(folder)
    cache.put("a", b"a")
    _path(cache, "a").chmod(0o666)
    assert cache.get("a") is None


def test_a_home_that_cannot_be_written_to_costs_one_note(tmp_path, caplog):
    (tmp_path / "file").touch()
    record = _warned(DiskCache(tmp_path / "file" / "cache"), caplog)
    assert record.levelname == "INFO"
    assert "cannot be used: " in record.getMessage()


def test_a_wrong_switch_is_told_once_and_stops_nothing(monkeypatch, caplog):
    monkeypatch.setattr(disk_cache, "_the_one", None)
    monkeypatch.setenv("ANABRANCH_CACHE", "0")
    with caplog.at_level("WARNING", logger="anabranch"):
        for _ in range(2):
            assert disk_cache.of_process().info().why_off == "ANABRANCH_CACHE is neither 'off' nor an absolute path"
    assert [record.getMessage().count("ANABRANCH_CACHE='0'") for record in caplog.records] == [1]


def test_the_switch(monkeypatch, tmp_path):
    monkeypatch.setenv("ANABRANCH_CACHE", "off")
    assert disk_cache.chosen().info() == (None, "ANABRANCH_CACHE=off", 0, 0, disk_cache.LIMIT)
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path / "x"))
    assert disk_cache.chosen().folder == tmp_path / "x"
    monkeypatch.setenv("ANABRANCH_CACHE", "no")
    with pytest.raises(ValueError, match="'off' or an absolute path"):
        disk_cache.chosen()
    monkeypatch.delenv("ANABRANCH_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "y"))
    assert disk_cache.chosen().folder == tmp_path / "y" / "anabranch"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says its specification
    monkeypatch.setenv("HOME", str(tmp_path / "z"))
    assert disk_cache.chosen().folder == tmp_path / "z" / ".cache" / "anabranch"


def _command(capsys, *arguments):
    with pytest.raises(SystemExit, match="0"):
        command.main(["cache", *arguments])
    return capsys.readouterr().out


def test_the_command(folder, monkeypatch, capsys):
    monkeypatch.setenv("ANABRANCH_CACHE", str(folder))
    for key in "ab":
        DiskCache(folder).put(key, bytes(1000))
    assert _command(capsys, "info") == f"{folder}: 2 entries, 2.0 KiB of at most 2.0 GiB\n"
    told = json.loads(_command(capsys, "info", "--json"))
    assert told == {"folder": str(folder), "why_off": "", "entries": 2, "size": 2080, "limit": 2 << 30}
    assert _command(capsys, "clear") == f"removed 2 entries, 2.0 KiB, from {folder}\n"
    assert not list(folder.iterdir())
    assert json.loads(_command(capsys, "clear", "--json"))["entries"] == 0
    monkeypatch.setenv("ANABRANCH_CACHE", "off")
    assert _command(capsys, "info") == "off: ANABRANCH_CACHE=off\n"
