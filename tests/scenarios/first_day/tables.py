"""Three generated tables, their public lookup tables, and what a steward knows of them, as plain data.

Every value lies inside the declared bounds or lists, and nobody has more rows than `max_rows`, so that
neither clipping nor truncation changes an exact answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

WARDS = ["CAR", "GER", "ICU", "MAT", "NEU", "ONC", "ORT", "PED"]
DIAGNOSES = [
    "Angina",
    "Appendicitis",
    "Asthma",
    "Childbirth",
    "Chronic kidney disease",
    "Dehydration",
    "Epilepsy",
    "Fracture of ankle",
    "Fracture of hip",
    "Fracture of wrist",
    "Heart failure",
    "Lymphoma",
    "Pneumonia",
    "Stroke",
]
CITIES = [
    "Ajax",
    "Barrie",
    "Guelph",
    "Hamilton",
    "Kingston",
    "London",
    "Ottawa",
    "Sarnia",
    "Toronto",
    "Windsor",
]
INSURANCES = ["private", "public", "self-pay", "workplace"]

STATUSES = ["completed", "placed", "return_pending", "returned", "shipped"]
PRODUCTS = {
    "BAG-1": ("Canvas bag", "Accessories", "24.00"),
    "BAG-2": ("Leather bag", "Accessories", "119.00"),
    "BKT-1": ("Picnic basket", "Outdoor", "59.90"),
    "CHR-1": ("Camping chair", "Outdoor", "39.50"),
    "CUP-1": ("Enamel cup", "Kitchen", "9.90"),
    "CUP-2": ("Thermo cup", "Kitchen", "22.50"),
    "HAT-1": ("Straw hat", "Clothing", "18.00"),
    "HAT-2": ("Wool hat", "Clothing", "29.00"),
    "KNF-1": ("Pocket knife", "Outdoor", "34.00"),
    "PAN-1": ("Iron pan", "Kitchen", "64.00"),
    "SCF-1": ("Silk scarf", "Accessories", "49.00"),
    "SHT-1": ("Linen shirt", "Clothing", "54.00"),
    "SOX-1": ("Wool socks", "Clothing", "12.50"),
    "TNT-1": ("Two-person tent", "Outdoor", "249.00"),
    "TOW-1": ("Bath towel", "Home", "27.00"),
    "VAS-1": ("Glass vase", "Home", "36.00"),
}
COUNTRIES = ["AT", "BE", "DE", "ES", "FR", "IT", "NL", "PL", "PT"]
COUPONS = ["FRIEND5", "SPRING10", "WELCOME", "XMAS20"]
NOTES = [
    "Please leave at the door",
    "Gift wrap please",
    "arrived late",
    "Arrived DAMAGED, want a refund",
    "box was broken",
    "Call before delivery: 555-0142",
    "thank you!",
    "Wrong size",
]

DEPARTMENTS = ["CS", "ENG", "FIN", "HR", "IT", "LEG", "MKT", "OPS", "SAL"]
TITLES = [
    "Account Executive",
    "Accountant",
    "Analyst",
    "Assistant",
    "Director",
    "Engineer",
    "Engineering Manager",
    "Sales Manager",
    "Senior Analyst",
    "Senior Engineer",
]
OFFICES = ["Austin", "Boston", "Chicago", "Denver", "Seattle"]

LOOKUPS: dict[str, dict[str, list[Any]]] = {
    "wards": {
        "ward": WARDS,
        "ward_name": [
            "Cardiology",
            "Geriatrics",
            "Intensive Care",
            "Maternity",
            "Neurology",
            "Oncology",
            "Orthopaedics",
            "Paediatrics",
        ],
        "floor": [3, 1, 4, 2, 3, 4, 1, 2],
        "beds": [40, 36, 18, 30, 28, 32, 44, 26],
        "kind": ["medical", "medical", "critical", "family", "medical", "medical", "surgical", "family"],
    },
    "products": {
        "product": list(PRODUCTS),
        "product_name": [name for name, _, _ in PRODUCTS.values()],
        "category": [category for _, category, _ in PRODUCTS.values()],
        "list_price": [Decimal(price) for _, _, price in PRODUCTS.values()],
    },
    "departments": {
        "department": DEPARTMENTS,
        "department_name": [
            "Customer Service",
            "Engineering",
            "Finance",
            "Human Resources",
            "Information Technology",
            "Legal",
            "Marketing",
            "Operations",
            "Sales",
        ],
        "division": [
            "Commercial",
            "Technology",
            "Corporate",
            "Corporate",
            "Technology",
            "Corporate",
            "Commercial",
            "Technology",
            "Commercial",
        ],
        "opened": [2009, 2001, 2001, 2003, 2005, 2012, 2010, 2001, 2002],
    },
}
"""Public tables: their values may be read by anyone and cost nothing."""

FACTS: dict[str, dict[str, Any]] = {
    "admissions": {
        "unit": "patient_id",
        "max_rows": 12,
        "lookup": "wards",
        "columns": {
            "patient_id": {"type": "BIGINT", "nullable": False},
            "ward": {"type": "VARCHAR", "values": WARDS, "nullable": False},
            "admitted": {
                "type": "DATE",
                "low": date(2022, 1, 1),
                "high": date(2024, 12, 31),
                "nullable": False,
            },
            "discharged": {
                "type": "DATE",
                "low": date(2022, 1, 1),
                "high": date(2025, 3, 31),
                "nullable": True,
            },
            "diagnosis": {"type": "VARCHAR", "values": DIAGNOSES, "nullable": True},
            "emergency": {"type": "BOOLEAN", "nullable": False},
            "age": {"type": "INTEGER", "low": 0, "high": 105, "nullable": False},
            "sex": {"type": "VARCHAR", "values": ["F", "M"], "nullable": False},
            "weight": {"type": "DOUBLE", "low": 2.0, "high": 180.0, "nullable": True},
            "height": {"type": "INTEGER", "low": 40, "high": 210, "nullable": True},
            "city": {"type": "VARCHAR", "values": CITIES, "nullable": True},
            "insurance": {"type": "VARCHAR", "values": INSURANCES, "nullable": True},
            "charge": {
                "type": "DECIMAL(10,2)",
                "low": Decimal("0.00"),
                "high": Decimal("50000.00"),
                "nullable": True,
            },
        },
    },
    "orders": {
        "unit": "customer_id",
        "max_rows": 30,
        "lookup": "products",
        "columns": {
            "order_id": {"type": "BIGINT", "low": 1, "high": 100_000, "nullable": False},
            "customer_id": {"type": "BIGINT", "nullable": False},
            "ordered_at": {
                "type": "TIMESTAMP",
                "low": datetime(2023, 1, 1),
                "high": datetime(2024, 12, 31, 23, 59, 59),
                "nullable": False,
            },
            "status": {"type": "VARCHAR", "values": STATUSES, "nullable": False},
            "product": {"type": "VARCHAR", "values": list(PRODUCTS), "nullable": False},
            "quantity": {"type": "INTEGER", "low": 1, "high": 12, "nullable": False},
            "unit_price": {
                "type": "DECIMAL(8,2)",
                "low": Decimal("0.00"),
                "high": Decimal("300.00"),
                "nullable": False,
            },
            "shipping": {
                "type": "DECIMAL(6,2)",
                "low": Decimal("0.00"),
                "high": Decimal("40.00"),
                "nullable": True,
            },
            "country": {"type": "VARCHAR", "values": COUNTRIES, "nullable": True},
            "coupon": {"type": "VARCHAR", "values": COUPONS, "nullable": True},
            "rating": {"type": "INTEGER", "low": 1, "high": 5, "nullable": True},
            "note": {"type": "VARCHAR", "nullable": True},
        },
    },
    "employees": {
        "unit": "employee_id",
        "max_rows": 5,
        "lookup": "departments",
        "columns": {
            "employee_id": {"type": "BIGINT", "nullable": False},
            "department": {"type": "VARCHAR", "values": DEPARTMENTS, "nullable": True},
            "title": {"type": "VARCHAR", "values": TITLES, "nullable": False},
            "level": {"type": "INTEGER", "low": 1, "high": 7, "nullable": False},
            "salary": {"type": "INTEGER", "low": 20_000, "high": 250_000, "nullable": True},
            "commission": {"type": "DOUBLE", "low": 0.0, "high": 0.3, "nullable": True},
            "hired": {
                "type": "DATE",
                "low": date(2021, 1, 1),
                "high": date(2023, 12, 31),
                "nullable": False,
            },
            "left_on": {
                "type": "DATE",
                "low": date(2021, 1, 1),
                "high": date(2023, 12, 31),
                "nullable": True,
            },
            "office": {"type": "VARCHAR", "values": OFFICES, "nullable": True},
            "gender": {"type": "VARCHAR", "values": ["F", "M", "X"], "nullable": True},
            "birth_date": {
                "type": "DATE",
                "low": date(1955, 1, 1),
                "high": date(2003, 12, 31),
                "nullable": True,
            },
            "remote": {"type": "BOOLEAN", "nullable": True},
        },
    },
}
"""What a steward declares. Text without `values` is free text; a BOOLEAN lists itself."""


def build_tables() -> dict[str, pa.Table]:
    """Return all six tables by name; the same values every time."""
    lookups = {name: pa.table(columns) for name, columns in LOOKUPS.items()}
    private = {
        "admissions": _build_admissions(np.random.default_rng(2101)),
        "orders": _build_orders(np.random.default_rng(2102)),
        "employees": _build_employees(np.random.default_rng(2103)),
    }
    return private | lookups


def _build_admissions(rng: np.random.Generator) -> pa.Table:
    first = np.datetime64("2022-01-01")
    person, day = _draw_visits(rng, people=3_000, success=0.55, most=12, moments=1_096)
    n, last = len(person), _is_last(person)
    stay = np.minimum(1 + rng.gamma(1.2, 4.0, n).astype(int), 80)
    until_next = np.where(last, 80, np.roll(day, -1) - day)
    age = np.clip(_per_person(rng.normal(52, 24, 3_000), person) + day // 365, 0, 105).astype(int)
    height = np.where(age < 18, 75 + 5.2 * age, 169) + _per_person(rng.normal(0, 8, 3_000), person)
    height = np.clip(height, 45, 205).astype(int)
    weight = np.clip((height / 100) ** 2 * rng.lognormal(3.25, 0.18, n), 3, 178).round(1)
    cents = np.clip(rng.lognormal(11.4, 0.9, n) * np.sqrt(stay), 5_000, 4_900_000).astype(int)
    columns = {
        "patient_id": person + 10_001,
        "ward": _pick(rng, WARDS, n),
        "admitted": pa.array(first + day),
        "discharged": _with_nulls(rng, first + day + np.minimum(stay, until_next), 0.03),
        "diagnosis": _with_nulls(rng, _pick(rng, DIAGNOSES, n), 0.04),
        "emergency": rng.random(n) < 0.37,
        "age": pa.array(age, pa.int32()),
        "sex": np.array(["F", "M"])[_per_person(rng.random(3_000) < 0.46, person).astype(int)],
        "weight": _with_nulls(rng, weight, 0.06),
        "height": _with_nulls(rng, height.astype("int32"), 0.05),
        "city": _with_nulls(rng, _per_person(_pick(rng, CITIES, 3_000), person), 0.08),
        "insurance": _with_nulls(rng, _per_person(_pick(rng, INSURANCES, 3_000), person), 0.18),
        "charge": _decimals(rng, cents, 10, 0.05),
    }
    return _shuffled(rng, columns)


def _build_orders(rng: np.random.Generator) -> pa.Table:
    person, second = _draw_visits(rng, people=3_500, success=0.32, most=30, moments=731 * 86_400)
    n = len(person)
    # Shops sleep at night: half of the orders before 7 o'clock move to the evening.
    early = (second % 86_400 < 7 * 3_600) & (rng.random(n) < 0.5)
    second = np.where(early, second + 14 * 3_600, second)
    product = _pick(rng, list(PRODUCTS), n)
    prices = {code: int(Decimal(price) * 100) for code, (_, _, price) in PRODUCTS.items()}
    listed = np.array([prices[code] for code in product])
    reduced = np.where(rng.random(n) < 0.3, rng.choice([0.95, 0.9, 0.8, 0.5], n), 1.0)
    columns = {
        "order_id": rng.permutation(n) + 1,
        "customer_id": person + 1_001,
        "ordered_at": pa.array(np.datetime64("2023-01-01", "us") + second * np.timedelta64(1, "s")),
        "status": rng.choice(STATUSES, n, p=[0.66, 0.06, 0.03, 0.08, 0.17]),
        "product": product,
        "quantity": pa.array(np.minimum(rng.geometric(0.5, n), 12), pa.int32()),
        "unit_price": _decimals(rng, np.rint(listed * reduced).astype(int), 8, 0.0),
        "shipping": _decimals(rng, rng.choice([0, 390, 490, 990, 1_990], n), 6, 0.07),
        "country": _with_nulls(rng, _per_person(_pick(rng, COUNTRIES, 3_500), person), 0.06),
        "coupon": _with_nulls(rng, _pick(rng, COUPONS, n), 0.78),
        "rating": _with_nulls(
            rng, rng.choice(5, n, p=[0.06, 0.07, 0.15, 0.32, 0.4]).astype("int32") + 1, 0.55
        ),
        "note": _with_nulls(rng, _pick(rng, NOTES, n), 0.7),
    }
    return _shuffled(rng, columns)


def _build_employees(rng: np.random.Generator) -> pa.Table:
    first = np.datetime64("2021-01-01")
    person, day = _draw_visits(rng, people=2_600, success=0.62, most=5, moments=1_095)
    n, last = len(person), _is_last(person)
    left = np.where(last, day + rng.integers(0, 1_095 - day), np.roll(day, -1) - 1)
    still_here = last & (rng.random(n) < 0.72)
    spell = np.arange(n) - np.searchsorted(person, person)
    level = np.clip(_per_person(rng.geometric(0.42, 2_600), person) + spell, 1, 7)
    salary = (28_000 * 1.24**level * rng.lognormal(0.1, 0.2, n)).clip(21_000, 245_000).astype("int32")
    born = np.datetime64("1955-01-01") + rng.integers(0, 17_500, 2_600)
    columns = {
        "employee_id": person + 1,
        "department": _with_nulls(rng, _pick(rng, DEPARTMENTS, n), 0.05),
        "title": _pick(rng, TITLES, n),
        "level": pa.array(level, pa.int32()),
        "salary": _with_nulls(rng, salary, 0.03),
        "commission": _with_nulls(rng, rng.choice([0.0, 0.05, 0.1, 0.15, 0.3], n), 0.66),
        "hired": pa.array(first + day),
        "left_on": pa.array(first + left, mask=still_here),
        "office": _with_nulls(rng, _pick(rng, OFFICES, n), 0.12),
        "gender": _with_nulls(
            rng, _per_person(rng.choice(["F", "M", "X"], 2_600, p=[0.45, 0.53, 0.02]), person), 0.04
        ),
        "birth_date": _with_nulls(rng, _per_person(born, person), 0.02),
        "remote": _with_nulls(rng, rng.random(n) < 0.33, 0.07),
    }
    return _shuffled(rng, columns)


def _draw_visits(
    rng: np.random.Generator, *, people: int, success: float, most: int, moments: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a person and a moment for each row, sorted, with no moment twice for one person."""
    rows = np.minimum(rng.geometric(success, people), most)
    person = np.repeat(np.arange(people), rows)
    visits = np.unique(np.column_stack([person, rng.integers(0, moments, len(person))]), axis=0)
    return visits[:, 0], visits[:, 1]


def _is_last(person: np.ndarray) -> np.ndarray:
    return np.append(person[1:] != person[:-1], True)


def _per_person(values: np.ndarray, person: np.ndarray) -> np.ndarray:
    return values[person]


def _pick(rng: np.random.Generator, values: Sequence[str], n: int) -> np.ndarray:
    """Return `n` of the values, skewed: which of them are frequent is drawn too."""
    weights = rng.permutation(1.0 / np.arange(1, len(values) + 1) ** 0.8)
    return rng.choice(np.array(values), n, p=weights / weights.sum())


def _with_nulls(rng: np.random.Generator, values: np.ndarray, share: float) -> pa.Array:
    return pa.array(values, mask=rng.random(len(values)) < share)


def _decimals(rng: np.random.Generator, cents: np.ndarray, precision: int, share: float) -> pa.Array:
    """Return the cents as decimals with two places, a share of them missing."""
    numbers = [Decimal(int(cent)).scaleb(-2) for cent in cents]
    missing = rng.random(len(cents)) < share
    kept = [None if hole else number for number, hole in zip(numbers, missing, strict=True)]
    return pa.array(kept, pa.decimal128(precision, 2))


def _shuffled(rng: np.random.Generator, columns: dict[str, Any]) -> pa.Table:
    table = pa.table(columns)
    return table.take(pa.array(rng.permutation(len(table))))
