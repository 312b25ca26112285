"""The manifests for Kubernetes are valid, name files that there are, and start programs with flags that they take."""
import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import harness
from process import Server
from test_kv_files import metric

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDER = os.path.join(ROOT, "packaging", "kubernetes")
# The version of Kubernetes whose schemas are used.
VERSION = "1.31"


def documents(path):
    import yaml
    with open(path) as file:
        return list(yaml.safe_load_all(file))


def merged(base, patch):
    """Returns `base` with `patch` applied as a strategic merge: entries of lists with the same name are the same."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return {key: merged(base[key], patch[key]) if key in base and key in patch else {**base, **patch}[key]
                for key in {**base, **patch}}
    if isinstance(base, list) and isinstance(patch, list) and all(isinstance(item, dict) for item in base + patch):
        named = {item["name"]: item for item in patch}
        kept = [merged(item, named.pop(item["name"], {})) for item in base]
        return kept + list(named.values())
    return patch


def build(name):
    """Returns the resources of packaging/kubernetes/NAME by (kind, name), and the files of its config maps."""
    folder = os.path.join(FOLDER, name)
    (kustomization,) = documents(os.path.join(folder, "kustomization.yaml"))
    resources, files = {}, {}
    for entry in kustomization["resources"]:
        path = os.path.normpath(os.path.join(folder, entry))
        if os.path.isdir(path):
            below, configs = build(os.path.relpath(path, FOLDER))
            resources.update(below)
            files.update(configs)
            continue
        for document in documents(path):
            resources[document["kind"], document["metadata"]["name"]] = document
    for patch in kustomization.get("patches", []):
        (document,) = documents(os.path.join(folder, patch["path"]))
        key = document["kind"], document["metadata"]["name"]
        assert key in resources, (name, key)
        resources[key] = merged(resources[key], document)
    for config in kustomization.get("configMapGenerator", []):
        files[config["name"]] = {file: os.path.join(folder, file) for file in config["files"]}
    return resources, files


def containers(resources):
    for (kind, _), document in resources.items():
        if kind in ("StatefulSet", "Deployment"):
            for container in document["spec"]["template"]["spec"]["containers"]:
                yield document, container


def as_known_kinds(document):
    """Returns a LeaderWorkerSet, whose schema is not part of Kubernetes, as two Deployments of its pods."""
    if document["kind"] != "LeaderWorkerSet":
        return [document]
    assert document["apiVersion"] == "leaderworkerset.x-k8s.io/v1" and set(document) == {"apiVersion", "kind", "metadata", "spec"}
    spec = document["spec"]
    assert set(spec) <= {"replicas", "leaderWorkerTemplate", "rolloutStrategy", "startupPolicy", "networkConfig"}
    group = spec["leaderWorkerTemplate"]
    assert set(group) <= {"leaderTemplate", "workerTemplate", "size", "restartPolicy", "subGroupPolicy"} and group["size"] > 1
    assert group["restartPolicy"] in ("Default", "RecreateGroupOnPodRestart", "None")
    return [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": document["metadata"],
             "spec": {"replicas": spec["replicas"], "template": group[name],
                      "selector": {"matchLabels": group[name]["metadata"]["labels"]}}}
            for name in ("leaderTemplate", "workerTemplate")]


def test_manifests_are_valid(binary):
    import kubernetes_validate
    for name in sorted(os.listdir(FOLDER)):
        resources, files = build(name)
        assert len(resources) >= 2
        for key, document in resources.items():
            for known in as_known_kinds(document):
                try:
                    kubernetes_validate.validate(known, VERSION, strict=True)
                except kubernetes_validate.ValidationError as error:
                    raise AssertionError(f"{name} {key}: {error.message} at {list(error.path)}") from None
        for document, container in containers(resources):
            spec = document["spec"]["template"]["spec"]
            volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
            assert {mount["name"] for mount in container.get("volumeMounts", [])} == set(volumes)
            for volume in volumes.values():
                if "configMap" in volume:
                    assert volume["configMap"]["name"] in files, (name, volume)
            labels = document["spec"]["template"]["metadata"]["labels"]
            assert document["spec"]["selector"]["matchLabels"] == labels
            ports = {port["name"] for port in container["ports"]}
            probes = [container[probe] for probe in container if probe.endswith("Probe")]
            assert len(probes) >= 2 and {probe["httpGet"]["port"] for probe in probes} <= ports
        for (kind, _), document in resources.items():
            if kind == "Service" and name != "ranks":
                selected = [d for d, _ in containers(resources)
                            if d["spec"]["template"]["metadata"]["labels"] == document["spec"]["selector"]]
                assert len(selected) == 1, (name, document["metadata"]["name"])
    gpu = build("gpu")[0]["StatefulSet", "quire"]["spec"]["template"]["spec"]["containers"][0]
    assert gpu["resources"]["limits"] == {"memory": "16Gi", "nvidia.com/gpu": "1"}
    assert [entry["name"] for entry in gpu["env"]] == ["QUIRE_CONFIG", "QUIRE_API_KEY", "QUIRE_DEVICE"]


def test_the_server_takes_its_settings(binary):
    """The file of the config map contains only flags, among them those that probes and grace periods depend on."""
    resources, files = build("base")
    path = files["quire"]["quire.yaml"]
    done = subprocess.run([binary, "serve", "--config", path, "--print-config"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (settings,) = documents(path)
    (stateful, container), = containers(resources)
    assert settings["port"] == container["ports"][0]["containerPort"]
    assert stateful["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > settings["shutdown-timeout"]
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    for name in ("model", "cache-dir"):
        assert any(settings[name] == mount or settings[name].startswith(mount + "/") for mount in mounts), name


def test_prefill_and_decode_hand_over_as_the_manifests_say(binary):
    """The servers take the settings of the manifests, and the router reaches them under their names in the manifests."""
    resources, files = build("prefill-decode")
    (settings,) = documents(files["quire"]["quire.yaml"])
    by_name = {container["name"] + document["metadata"]["name"]: container for document, container in containers(resources)}
    addresses = [flag for flag in by_name["routerquire-router"]["args"] if flag.startswith("http://")]
    wanted = [f"http://quire-{role}-{i}.quire-{role}:8000" for role in ("prefill", "decode")
              for i in range(resources["StatefulSet", f"quire-{role}"]["spec"]["replicas"])]
    assert addresses == wanted
    with tempfile.TemporaryDirectory() as folder:
        def serve(role):
            container = by_name[f"quirequire-{role}"]
            assert settings["kv-cache-dir"] in [mount["mountPath"] for mount in container["volumeMounts"]]
            environment = {entry["name"]: entry["value"] for entry in container["env"] if entry["name"] == "QUIRE_KV_TRANSFER_CONFIG"}
            return Server(binary, "--hardware", "none", "--kv-cache-dir", folder, environment={**os.environ, **environment})

        with serve("prefill") as prefill, serve("decode") as decode, \
                Server(binary, "--prefill-backend", prefill.url, "--backend", decode.url, "--health-interval-ms", "50", verb="route") as router:
            context = harness.Context(router.url, "none", None)
            context.wait_ready(30)
            for _ in range(100):
                if all(b["healthy"] for b in context.get("/quire/backends")["backends"]):
                    break
                time.sleep(0.05)
            context.post("/v1/completions", {"model": context.model, "prompt": "Once upon a time " * 20, "max_tokens": 4})
            assert metric(decode.url, "quire:kv_takeovers_total") == 1


def test_the_router_starts_and_probes_are_answered(binary):
    resources, files = build("fleet")
    (container,) = [c for _, c in containers(resources) if c["name"] == "router"]
    with open(files["quire-backends"]["backends"]) as file:
        hosts = [line.strip().removeprefix("http://").partition(".")[0] for line in file if line.strip()]
    replicas = resources["StatefulSet", "quire"]["spec"]["replicas"]
    assert hosts == [f"quire-{i}" for i in range(replicas)]
    paths = {probe["httpGet"]["path"] for _, c in containers(resources) for key, probe in c.items()
             if key.endswith("Probe")}
    with tempfile.TemporaryDirectory() as folder, Server(binary, "--hardware", "none") as server:
        backends = os.path.join(folder, "backends")
        with open(backends, "w") as file:
            file.write(server.url + "\n")
        assert container["command"] == ["quire", "route"]
        flags = [backends if flag == "/etc/quire/backends" else flag for flag in container["args"]]
        for name in ("--port", "--host"):  # the test sets its own
            at = flags.index(name)
            del flags[at:at + 2]
        with Server(binary, *flags, verb="route") as router:
            for url in (server.url, router.url):
                for path in paths:
                    with urllib.request.urlopen(url + path, timeout=30) as answer:
                        assert answer.status == 200, (url, path)
