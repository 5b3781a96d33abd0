"""Files that torch.export.save wrote, and such as somebody has changed so that reading them would run a command."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import memplan  # noqa: E402
from memplan.errors import SourceError  # noqa: E402
from memplan.torch.reading import import_pt2, import_torch  # noqa: E402

pytestmark = pytest.mark.skipif(
    tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 13), reason="the layout of torch 2.13"
)

Files = dict[str, bytes]
MODEL, SAMPLES = "models/model.json", "data/sample_inputs/model.pt"
WEIGHTS, CONSTANTS = "data/weights/model_weights_config.json", "data/constants/model_constants_config.json"


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.tied = self.fc

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        return self.tied(self.fc(x)) * scale


@cache
def exported() -> Any:
    sizes = {"x": {0: torch.export.Dim("batch", min=2)}, "scale": None}
    x, scale = torch.zeros(3, 4), torch.ones(4)
    return torch.export.export(Net(), (x,), {"scale": scale}, dynamic_shapes=sizes)


@pytest.fixture(scope="module")
def program() -> Any:
    return exported()


def dims() -> dict[str, int]:
    """The size of the dimension that the program leaves open, by its name in a file."""
    symbol = exported().graph.find_nodes(op="placeholder")[-2].meta["val"].shape[0]
    return {str(symbol): 3}


@pytest.fixture(scope="module")
def files(program: Any) -> Files:
    """The entries of a file that torch wrote, by their names below its folder."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    with zipfile.ZipFile(buffer) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def written(path: Path, files: Files, folder: str = "model/") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(folder + name, data)
    return path


class Touch:
    """What a pickle of it does: make a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.target,)


def pickled(target: Path) -> bytes:
    buffer = io.BytesIO()
    torch.save({"x": Touch(target)}, buffer)
    return buffer.getvalue()


def command(target: Path) -> str:
    return f"__import__('pathlib').Path('{target}').touch()"


def described(change: Callable[[dict[str, Any], Path], None]) -> Callable[[Files, Path], None]:
    """A change of the program's description."""

    def apply(files: Files, target: Path) -> None:
        model = json.loads(files[MODEL])
        change(model, target)
        files[MODEL] = json.dumps(model).encode()

    return apply


def graph(model: dict[str, Any]) -> dict[str, Any]:
    return model["graph_module"]["graph"]  # type: ignore[no-any-return]


def renamed(old: str, new: str) -> Callable[[Files, Path], None]:
    def apply(files: Files, target: Path) -> None:
        name = json.dumps(new.replace("COMMAND", command(target)))
        files[MODEL] = files[MODEL].replace(json.dumps(old).encode(), name.encode())

    return apply


def sample_inputs(files: Files, target: Path) -> None:
    files[SAMPLES] = pickled(target)


def weights_of_old(files: Files, target: Path) -> None:
    files["data/weights/model.pt"] = pickled(target)


def constants_of_old(files: Files, target: Path) -> None:
    files["data/constants/model.pt"] = pickled(target)


def pickled_weight(files: Files, target: Path) -> None:
    config = json.loads(files[WEIGHTS])
    config["config"]["fc.weight"] |= {"use_pickle": True, "path_name": "weight_9"}
    files[WEIGHTS] = json.dumps(config).encode()
    files["data/weights/weight_9"] = pickled(target)


def constant(path: str, data: Callable[[Path], bytes]) -> Callable[[Files, Path], None]:
    def apply(files: Files, target: Path) -> None:
        config = {"config": {"c": {"path_name": path, "is_param": False, "use_pickle": True, "tensor_meta": None}}}
        files[CONSTANTS] = json.dumps(config).encode()
        files[f"data/constants/{path}"] = data(target)

    return apply


def size(model: dict[str, Any], target: Path) -> None:
    graph(model)["tensor_values"]["x"]["sizes"][0]["as_expr"]["expr_str"] = command(target)


def a_call(model: dict[str, Any], target: Path) -> None:
    node = graph(model)["nodes"][0]
    node |= {"target": "torch.os.mkdir", "inputs": [{"name": "", "arg": {"as_string": str(target)}, "kind": 1}]}


def an_operator_on_files(model: dict[str, Any], target: Path) -> None:
    node = graph(model)["nodes"][0]
    texts = [("self", {"as_tensor": {"name": "x"}}), ("filename", {"as_string": str(target)})]
    node["target"], node["inputs"] = (
        "torch.ops.aten.save.default",
        [{"name": name, "arg": arg, "kind": 1} for name, arg in texts],
    )


def an_argument(model: dict[str, Any], _: Path) -> None:
    graph(model)["nodes"][0]["inputs"][1]["arg"] = {"as_operator": "torch.os.system"}


def guards(model: dict[str, Any], target: Path) -> None:
    model["guards_code"] = [command(target)]


def keyword(model: dict[str, Any], target: Path) -> None:
    signature = model["graph_module"]["module_call_graph"][0]["signature"]
    signature["forward_arg_names"] = None
    name = json.dumps(json.dumps([f"scale={command(target)}"]))
    signature["in_spec"] = signature["in_spec"].replace(json.dumps(json.dumps(["scale"])), name)


def argument_names(model: dict[str, Any], target: Path) -> None:
    model["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"] = ["x", f"scale={command(target)}"]


def container(model: dict[str, Any], _: Path) -> None:
    signature = model["graph_module"]["module_call_graph"][0]["signature"]
    member = {"__enum__": True, "fqn": "this:s", "name": "x"}
    signature["out_spec"] = json.dumps(
        [1, {"type": "builtins.dict", "context": json.dumps([member]), "children_spec": []}]
    )


def factory(model: dict[str, Any], _: Path) -> None:
    signature = model["graph_module"]["module_call_graph"][0]["signature"]
    context = {"default_factory_module": "os", "default_factory_name": "abort", "dict_context": []}
    spec = {"type": "collections.defaultdict", "context": context, "children_spec": []}
    signature["out_spec"] = json.dumps([1, spec])


HOSTILE: dict[str, Callable[[Files, Path], None]] = {
    "pickle in place of old weights": weights_of_old,
    "pickle in place of old constants": constants_of_old,
    "pickled weight": pickled_weight,
    "pickled constant": constant("tensor_0", pickled),
    "opaque object": constant("opaque_obj_0", lambda target: pickle.dumps(Touch(target))),
    "custom object": constant("custom_obj_0", lambda target: b""),
    "size": described(size),
    "function": described(a_call),
    "operator on files": described(an_operator_on_files),
    "operator as an argument": described(an_argument),
    "name of an input": renamed("x", "x=COMMAND"),
    "name of a weight": renamed("fc.weight", 'fc.x"), COMMAND) #'),
    "name of a tensor": renamed("linear", "linear=COMMAND"),
    "names of arguments": described(argument_names),
    "name of a keyword": described(keyword),
    "member of an enum": described(container),
    "default factory": described(factory),
}
LEFT_OUT = {"sample inputs": sample_inputs, "guards": described(guards)}


def test_a_file_is_read_as_torch_reads_it(tmp_path: Path, program: Any, files: Files) -> None:
    path = written(tmp_path / "model.pt2", files)
    assert import_pt2(path, dims=dims()) == import_torch(program, dims=dims())
    for train in (False, True):
        assert import_pt2(path, train=train, dims=dims()) == import_pt2(path, train=train, trust=True, dims=dims())


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("train", [False, True])
def test_what_would_run_is_refused(tmp_path: Path, files: Files, what: str, train: bool) -> None:
    changed, target = dict(files), tmp_path / "made"
    HOSTILE[what](changed, target)
    path = written(tmp_path / "model.pt2", changed)
    with pytest.raises(SourceError, match=r"model\.pt2: .*trust=True") as raised:
        import_pt2(path, train=train, dims=dims())
    assert str(raised.value).isprintable()
    assert not target.exists()


@pytest.mark.parametrize("what", LEFT_OUT)
@pytest.mark.parametrize("train", [False, True])
def test_what_planning_does_not_need_is_left_out(tmp_path: Path, files: Files, what: str, train: bool) -> None:
    changed, target = dict(files), tmp_path / "made"
    LEFT_OUT[what](changed, target)
    got = import_pt2(written(tmp_path / "model.pt2", changed), train=train, dims=dims())
    assert got == import_pt2(written(tmp_path / "other.pt2", files), train=train, dims=dims())
    assert not target.exists()


def test_with_trust_torch_reads_the_file_itself(tmp_path: Path, files: Files) -> None:
    changed, target = dict(files), tmp_path / "made"
    HOSTILE["opaque object"](changed, target)
    path = written(tmp_path / "model.pt2", changed)
    with pytest.raises(SourceError, match="opaque_obj_0: 'c' is an object of a class of its own"):
        memplan.plan(path, dims=dims())
    assert not target.exists()
    memplan.plan(path, trust=True, dims=dims())
    assert target.exists()


def old_layout(files: Files) -> Files:
    """As torch wrote it before 2.8."""
    state = io.BytesIO()
    torch.save(dict(Net().named_parameters(remove_duplicate=False)), state)
    constants = io.BytesIO()
    torch.save({}, constants)
    return {
        "version": b"8.1",
        "serialized_exported_program.json": files[MODEL],
        "serialized_state_dict.pt": state.getvalue(),
        "serialized_constants.pt": constants.getvalue(),
        "serialized_example_inputs.pt": b"",
    }


@pytest.mark.filterwarnings("ignore")
def test_files_of_the_old_layout(tmp_path: Path, program: Any, files: Files) -> None:
    old = old_layout(files)
    path = written(tmp_path / "old.pt2", old, "")
    assert import_pt2(path, dims=dims()) == import_torch(program, dims=dims())
    target = tmp_path / "made"
    for name in ("serialized_state_dict.pt", "serialized_constants.pt"):
        with pytest.raises(SourceError, match=f"{name}: .*trust=True"):
            import_pt2(written(tmp_path / "changed.pt2", old | {name: pickled(target)}, ""), dims=dims())
    import_pt2(
        written(tmp_path / "changed.pt2", old | {"serialized_example_inputs.pt": pickled(target)}, ""), dims=dims()
    )
    assert not target.exists()


def test_sizes_that_are_claimed(tmp_path: Path, files: Files) -> None:
    path = written(tmp_path / "model.pt2", files)
    data = bytearray(path.read_bytes())
    at = data.rfind(b"model/data/weights/weight_0")
    data[at - 22 : at - 18] = data[at - 26 : at - 22] = (2**31).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"weight_0: claims 2147483648 bytes in a file of"):
        import_pt2(path, dims=dims())


@pytest.mark.parametrize("entry", [MODEL, "data/weights/weight_0"])
def test_an_archive_that_is_much_larger_inside(tmp_path: Path, files: Files, entry: str) -> None:
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"model/{name}", data + bytes(2**26) if name == entry else data)
    with pytest.raises(SourceError, match=rf"{entry}: the entries of a file of \d+ bytes hold 16 times as many"):
        import_pt2(path, dims=dims())


def test_weights_that_are_pickled_tensors(tmp_path: Path, program: Any, files: Files) -> None:
    changed, weight = dict(files), io.BytesIO()
    pickled_weight(changed, tmp_path)
    torch.save(torch.nn.Parameter(torch.ones(4, 4)), weight)
    changed["data/weights/weight_9"] = weight.getvalue()
    path = written(tmp_path / "model.pt2", changed)
    assert import_pt2(path, dims=dims()) == import_pt2(path, trust=True, dims=dims())


def test_a_compiled_package_is_no_program(tmp_path: Path, files: Files) -> None:
    changed = {name: data for name, data in files.items() if name != MODEL}
    path = written(tmp_path / "model.pt2", changed | {"data/aotinductor/model/x.so": b""})
    with pytest.raises(SourceError, match="a package that was compiled"):
        import_pt2(path, dims=dims())


def test_sizes_that_cannot_be(tmp_path: Path, files: Files) -> None:
    changed = dict(files)
    model = json.loads(files[MODEL])
    graph(model)["tensor_values"]["scale"]["sizes"] = [{"as_int": -8}]
    changed[MODEL] = json.dumps(model).encode()
    with pytest.raises(SourceError, match=r"model\.pt2: "):
        import_pt2(written(tmp_path / "model.pt2", changed), dims=dims())


def test_what_torch_adds_to_errors_is_not_shown() -> None:
    class Branch(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.cond(x.shape[0] > 3, torch.sin, torch.cos, (x,))

    sizes = {"x": {0: torch.export.Dim("batch", min=2)}}
    program = torch.export.export(Branch(), (torch.zeros(5, 4),), dynamic_shapes=sizes)
    with pytest.raises(SourceError, match="cond cannot be imported from a module") as raised:
        import_torch(program, train=True, dims={"batch": 5})
    assert str(raised.value).isprintable()
    assert "While executing" not in str(raised.value)
