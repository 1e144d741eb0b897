"""Price sheets: what a row means, in the units of a plan; and nothing about money is guessed."""

from __future__ import annotations

import pytest

from alloc.errors import InstanceError
from alloc.planning.price_columns import parse_columns
from alloc.planning.prices import PriceSheet, read_price_sheet


def sheet(tmp_path, text, **options) -> PriceSheet:
    path = tmp_path / "prices.csv"
    path.write_text(text, encoding="utf-8")
    return read_price_sheet(path, **options)


HEAD = "host,gpu_type,gpus,"


@pytest.mark.parametrize(
    ("column", "cell", "terms", "price"),
    [
        ("purchase EUR", "120000", "purchase", 120_000),
        ("Purchase (EUR)", '"120,000.50"', "purchase", 120_000.5),
        ("buy", "EUR 120 000", "purchase", 120_000),
        ("price to buy", "€120000", "purchase", 120_000),
        ("Purchase price per GPU EUR", "15000", "purchase", 120_000),
        ("PurchasePricePerGPU EUR", "15000", "purchase", 120_000),
        ("purchase EUR per GPU", "15000", "purchase", 120_000),
        ("reserved EUR per month", "3000", "reserved", 9_000),
        ("reserved EUR a month", "3000", "reserved", 9_000),
        ("reserved EUR/a", "40000", "reserved", 10_000),
        ("reservedPerMonth EUR", "3000", "reserved", 9_000),
        ("reserved EUR/h", "5", "reserved", 10_950),
        ("reserved_eur_yearly", "40000", "reserved", 10_000),
        ("Reserved EUR per GPU per quarter", "1000", "reserved", 8_000),
        ("on-demand EUR", "12.5", "on_demand", 12.5),
        ("rent EUR per GPU hour", "2.5", "on_demand", 20.0),
        ("reserved EUR/h", "19.219", "reserved", 19.219 * 2190),
        ("rental EUR per GPU hour", "2.5", "on_demand", 20.0),
        ("ondemand EUR / GPU / h", "2.5", "on_demand", 20.0),
        ("on-demand EUR", "32.773", "on_demand", 32.773),
        ("on_demand EUR per day", "240", "on_demand", 10.0),
        ("Spot (EUR/h)", "4", "spot", 4.0),
    ],
)
def test_a_price_has_the_unit_that_its_column_names(tmp_path, column, cell, terms, price):
    found = sheet(tmp_path, f"{HEAD}{column}\nbox,a100,8,{cell}\n")
    (offer,) = found.offers
    assert (offer.terms, found.currency) == (terms, "EUR")
    assert offer.price == pytest.approx(price)


def test_one_price_a_row_says_the_same_as_a_column_for_each_of_the_terms(tmp_path):
    wide = sheet(
        tmp_path,
        f"{HEAD}purchase EUR,reserved EUR per month,on-demand EUR,spot EUR\n"
        "box,a100,8,9e4,3e3,12,4\n",
    )
    long = sheet(
        tmp_path,
        f"{HEAD}terms,price,per,currency\nbox,a100,8,buy,90000,host,EUR\n"
        "box,a100,8,reserved,3000,month,EUR\nbox,a100,8,on-demand,12,hour,EUR\n"
        "box,a100,8,Spot,96,day,eur\n",
    )
    assert wide.offers == long.offers
    assert [offer.name for offer in wide.offers] == [
        "buy box",
        "reserve box",
        "rent box",
        "spot box",
    ]


def test_the_other_columns_are_in_the_units_of_an_offer(tmp_path):
    found = sheet(
        tmp_path,
        "server;gpu model;num_gpus;purchase;reserved per month;lead time weeks;life years;"
        "term months;busy power W;idle kW;maintenance per year;residual;rack units;ports;max hosts;"
        "site;relative speed\n"
        "dgx-h100;;;3e5;9000;14;5;12;10200;3;6000;10 %;8;10;20;north|south;2.5\n",
        currency="USD",
    )
    bought, reserved = found.offers
    assert (bought.host.num_gpus, bought.gpu_type) == (8, reserved.gpu_type)
    assert bought.lead_time_quarters == reserved.lead_time_quarters == 2
    assert (bought.service_quarters, reserved.service_quarters) == (20, 4)
    assert (bought.idle_kw, reserved.busy_kw) == (3.0, 0.0)
    assert bought.busy_kw == pytest.approx(10.2)
    assert bought.maintenance_per_quarter == pytest.approx(1500)
    assert (bought.residual_fraction, bought.rack_units, bought.ports) == (0.1, 8, 10)
    assert (bought.most_hosts, bought.sites) == (20, ("north", "south"))
    assert [site.name for site in found.sites] == ["north", "south"]
    assert found.speeds == {bought.gpu_type: 2.5}


@pytest.mark.parametrize(
    ("terms", "per", "price"),
    [
        ("buy", "GPU", 80.0),
        ("rent", "GPU-hour", 80.0),
        ("reserved", "GPU per month", 240.0),
        ("reserved", "a quarter", 10.0),
    ],
)
@pytest.mark.parametrize("name", ["price", "cost per GPU"])
def test_a_price_for_one_gpu_is_of_all_gpus_of_the_host(tmp_path, terms, per, price, name):
    """Whether the column or the cell says so, and no more than once if both do."""
    found = sheet(
        tmp_path, f"{HEAD}terms,{name},per\nbox,a100,8,{terms},10,{per}\n", currency="EUR"
    )
    each = 8 if name != "price" and "GPU" not in per else 1
    assert found.offers[0].price == pytest.approx(each * price)
    assert any("(per GPU)" in note for note in found.notes) == (name != "price")


def test_power_and_upkeep_of_one_gpu_are_those_of_all(tmp_path):
    found = sheet(
        tmp_path,
        "GPU server,GPU type,GPUs,purchase EUR,GPU TDP W,maintenance per GPU per year\n"
        "box,a100,8,90000,400,100\n",
    )
    assert found.offers[0].busy_kw == pytest.approx(3.2)
    assert found.offers[0].maintenance_per_quarter == pytest.approx(200)


def test_a_mapped_price_of_a_host_with_gpus_is_not_multiplied(tmp_path):
    found = sheet(
        tmp_path,
        HEAD + "List of 8x GPU box EUR\nbox,a100,8,90000\n",
        columns={"purchase": "List of 8x GPU box EUR"},
    )
    assert found.offers[0].price == 90_000


def test_a_site_may_be_called_na_and_a_currency_be_a_sign(tmp_path):
    found = sheet(tmp_path, HEAD + "purchase EUR,site,currency\nbox,a100,8,90000,NA|NA,€\n")
    assert found.offers[0].sites == ("NA",)
    assert found.currency == "EUR"


def test_a_map_says_what_a_name_does_not(tmp_path):
    found = sheet(
        tmp_path,
        "SKU-Id,Karte,Stück,Kaufpreis\nbox,a100,8,9e4\n",
        columns=parse_columns(["host=SKU-Id,gpu_type=Karte", "gpus=Stück,purchase=Kaufpreis"]),
        currency="EUR",
    )
    assert found.offers[0].price == 90_000


WRONG = [
    ("", "is empty"),
    (HEAD + "purchase EUR\n", "has no row"),
    (HEAD + "colour\nbox,a100,8,red\n", 'column "colour" is nothing that a price sheet has'),
    (HEAD + "site\nbox,a100,8,x\n", "no column is a price"),
    ("purchase EUR\n5\n", "no column says what the hosts are"),
    (HEAD + "purchase EUR,buy\nbox,a100,8,5,6\n", "look like the purchase"),
    (HEAD + "purchase EUR,terms\nbox,a100,8,5,buy\n", "keep one way to write prices"),
    (HEAD + "purchase EUR\nbox,a100,8,-5\n", "line 2: purchase EUR is -5; a price is above 0"),
    (HEAD + "purchase EUR\nbox,a100,8,0\n", "a price is above 0"),
    (HEAD + "purchase EUR\nbox,a100,8,\n", "line 2: has no price"),
    (HEAD + "purchase EUR\nbox,a100,8,1.200,50\n", "fields instead of"),
    (HEAD + "purchase EUR\nbox,a100,8,cheap\n", 'is "cheap"; write a number'),
    (HEAD + "purchase\nbox,a100,8,5\n", "does not say in which currency"),
    (HEAD + "purchase\nbox,a100,8,$5\n", "does not say in which currency"),
    (HEAD + "purchase EUR,spot USD\nbox,a100,8,5,1\n", "convert the prices to one currency"),
    (HEAD + "terms,price,currency\na,x,8,buy,5,EUR\nb,x,8,buy,5,USD\n", "line 2 EUR; convert"),
    (HEAD + "purchase EUR\nbox,a100,8,USD 5\n", '"USD 5" says USD'),
    (HEAD + "reserved EUR\nbox,a100,8,5\n", "does not say for how long"),
    (HEAD + "purchase EUR per month\nbox,a100,8,5\n", "a purchase has no price per month"),
    (HEAD + "terms,price,per\nbox,a100,8,lease,5,month\n", 'the terms "lease" are unknown'),
    (HEAD + "terms,price,per\nbox,a100,8,rent,5,decade\n", 'the price is per "decade"'),
    (HEAD + "terms,price,per\nbox,a100,8,reserved,5,3 years\n", 'the price is per "3 years"'),
    (HEAD + "terms,price,per\nbox,a100,8,rent,5,hour month\n", 'per "hour month"'),
    (HEAD + "terms,price per month,per\na,x,8,rent,5,hour\n", "correct one of them"),
    (HEAD + "yearly reserved EUR per month\na,x,8,5\n", "more than one period (month and year)"),
    (HEAD + "purchase EUR\nbox,a100,8,120.000\n", "write 120000 or 120.0000"),
    (HEAD + "reserved EUR per month\nbox,a100,8,4.300\n", "write 4300 or 4.3000"),
    ("host;gpu_type;gpus;spot EUR\nbox;a100;8;27,500\n", "write 27500 or 27.5000"),
    (HEAD + "purchase EUR,available GPU\nbox,a100,8,5,80\n", "is nothing that a price sheet has"),
    (HEAD + "purchase EUR\nbox,a100,8,5\nbox,a100,8,6\n", "on line 2 too"),
    (HEAD + "purchase EUR\nbox,a100,0,5\n", "have 0 GPUs"),
    (HEAD + "purchase EUR\nbox,a100,7.5,5\n", "gpus is 7.5; give a whole number"),
    (HEAD + "purchase EUR\nbox,,8,5\n", '"box" is no machine that alloc knows'),
    (HEAD + "purchase EUR\n,a100,,5\n", "does not say what the host is"),
    (HEAD + "purchase EUR,lead time\nbox,a100,8,5,6\n", "is 6 of no unit"),
    (HEAD + "purchase EUR,power\nbox,a100,8,5,6500\n", "is 6500 of no unit"),
    (HEAD + "purchase EUR,power kW\nbox,a100,8,5,6500\n", "divide watts by 1,000"),
    (HEAD + "purchase EUR,residual\nbox,a100,8,5,60\n", "residual_fraction is 60"),
    (HEAD + "purchase EUR,speed\nbox,a100,8,5,0\n", "speed is 0; give a number above 0"),
    (HEAD + "purchase EUR,speed\na,x,8,5,1\nb,x,8,5,2\n", 'speed of "x" is 2, and 1 on line 2'),
    (HEAD + "purchase EUR,max hosts\nbox,a100,8,5,-1\n", "max hosts is -1; give 0 or more"),
]


@pytest.mark.parametrize(("text", "words"), WRONG, ids=[words[:40] for _, words in WRONG])
def test_a_wrong_sheet_is_one_sentence_with_the_cure(tmp_path, text, words):
    with pytest.raises(InstanceError) as caught:
        sheet(tmp_path, text)
    said = str(caught.value)
    assert words in said
    assert "\n" not in said
    assert "prices.csv" in said


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (["hots=A"], 'did you mean "host"'),
        (["host="], "has no column"),
        (["host=A,host=B"], "is named twice"),
    ],
)
def test_a_wrong_map_is_one_sentence_with_the_cure(pairs, words):
    with pytest.raises(InstanceError, match=words):
        parse_columns(pairs)


def test_a_map_to_a_column_that_is_not_there_names_the_nearest(tmp_path):
    with pytest.raises(InstanceError, match='did you mean "gpu_type"'):
        sheet(tmp_path, HEAD + "purchase EUR\nx,y,8,5\n", columns={"gpu_type": "gpu_typ"})
