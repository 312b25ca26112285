"""What lies beside the program for those who run it: the bill of materials."""
import hashlib
import json
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def test_bill_of_materials_names_every_library(binary):
    def made():
        return subprocess.run([sys.executable, os.path.join(ROOT, "tools", "make_sbom.py"), binary], capture_output=True,
                              text=True, check=True).stdout

    text = made()
    assert made() == text, "the same program gives another bill"
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    with open(binary, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    assert bill["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    parts = bill["components"]
    refs = [part["bom-ref"] for part in parts]
    assert len(set(refs)) == len(refs) and bill["dependencies"] == [{"ref": "quire", "dependsOn": refs}]
    loaded = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
    paths = {os.path.basename(os.path.realpath(path)) for path in re.findall(r"(/\S+) \(0x", loaded)}
    assert paths == {part["name"] for part in parts}, paths
    assert all(part["purl"].startswith("pkg:deb/debian/") and part["version"] for part in parts if "purl" in part)
    assert any(part["name"].startswith("libcrypto.so") and "purl" in part for part in parts), refs
