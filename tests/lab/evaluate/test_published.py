from igcf.data import dataset_info
from igcf.lab.baselines import METHODS
from igcf.lab.evaluate.protocols import protocol_named
from igcf.lab.evaluate.published import PUBLISHED, Experiment, tables_page
from igcf.tables import Table


def test_every_published_experiment_has_a_name_of_its_own_and_known_parts() -> None:
    assert len({each.name for each in PUBLISHED}) == len(PUBLISHED)
    for each in PUBLISHED:
        assert dataset_info(each.dataset).name == each.dataset
        assert set(each.methods) <= set(METHODS)
        protocol_named(each.protocol, **each.options)


def test_the_graph_model_is_in_every_table_of_the_paper_and_nicf_wherever_it_can_be() -> None:
    for each in PUBLISHED:
        if each.protocol in ("cold-start", "taste-drift", "top-k", "ablation", "known-users"):
            assert "igcf-graph" in each.methods or each.methods == ("nicf",), each.name
        if each.protocol in ("taste-drift", "top-k"):
            assert "nicf" in each.methods, each.name
    seeds = {
        (each.dataset, each.methods == ("nicf",)): each.seeds
        for each in PUBLISHED
        if each.protocol == "cold-start" and each.seeds > 1
    }
    assert seeds == {("ml-1m", False): 10, ("ml-1m", True): 3, ("kuairec", False): 10, ("kuairec", True): 3}
    graphs = {
        (changes.get("graph", "lightgcn"), changes.get("layers")) for changes in METHODS["igcf-graph"].variants.values()
    }
    assert graphs >= {(graph, layers) for graph in ("lightgcn", "sgc", "appnp") for layers in (1, 2, 3)} | {
        ("lightgcn", 0)
    }


def test_the_command_of_an_experiment_runs_it_alone() -> None:
    commands = {each.name: each.command for each in PUBLISHED}
    assert commands["returning-ml-1m-earliest"].endswith("--protocol returning --methods igcf --part earliest")
    assert commands["new-items-ml-1m-3-seeds"].endswith("--protocol new-items --methods igcf --seeds 3")
    assert commands["thin-log-ml-1m-0.05"].endswith("--keep 0.05")
    assert commands["thin-log-ml-1m-10-per-user"].endswith("--per-user 10")


def test_the_page_names_commits_keeps_what_did_not_run_again_and_says_what_never_ran() -> None:
    experiments = [Experiment("cold-start", name, ("pop",)) for name in ("ml-1m", "kuairec")]
    table = Table(title="one", header=("method", "P@10"), rows=(("pop", "7.20"),))
    before = tables_page([(each, [table]) for each in experiments], "abc")
    assert before.count("` at commit abc") == 2
    assert "`igcf evaluate --dataset ml-1m --protocol cold-start --methods pop` at commit abc" in before
    assert "cold-start-eachmovie" in before.split("Not run yet")[1].splitlines()[0]
    table = Table(title="one", header=("method", "P@10"), rows=(("pop", "7.30"),))
    page = tables_page([(experiments[0], [table])], "def", before)
    assert "| pop | 7.30 |" in page.split("## cold-start-kuairec")[0]
    assert page.split("## cold-start-kuairec")[1] == before.split("## cold-start-kuairec")[1]
    assert "cold-start-ml-1m" not in page.split("Not run yet")[1].splitlines()[0].split(", ")
