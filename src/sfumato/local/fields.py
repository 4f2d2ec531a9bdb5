"""Finite fields, as far as Singer's difference sets need them: primes, primitive polynomials, recurrences."""

from __future__ import annotations

from itertools import count, product
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

Polynomial = tuple[int, ...]
"""Coefficients c of xⁿ = c[0] + c[1]·x + … + c[n − 1]·xⁿ⁻¹."""


def prime_factors(number: int) -> list[int]:
    """Return the different primes that divide a number, ascending."""
    found, factor = [], 2
    while factor * factor <= number:
        if number % factor == 0:
            found.append(factor)
            while number % factor == 0:
                number //= factor
        factor += 1
    return [*found, number] if number > 1 else found


def primitive_root(prime: int) -> int:
    """Return the smallest number whose powers are all numbers below a prime but 0."""
    factors = prime_factors(prime - 1)
    return next(g for g in count(1) if all(pow(g, (prime - 1) // factor, prime) != 1 for factor in factors))


def powers(base: int, how_many: int, prime: int) -> NDArray[np.int64]:
    """Return base⁰, base¹, … modulo a prime below 2^31."""
    found = np.ones(1, dtype=np.int64)
    while found.size < how_many:
        found = np.concatenate([found, found * pow(base, found.size, prime) % prime])
    return found[:how_many]


def primitive_polynomial(prime: int, degree: int) -> Polynomial:
    """Return the first polynomial, in a fixed order, for which x generates the field of prime^degree."""
    order = prime**degree - 1
    factors = prime_factors(order)
    for rule in _polynomials(prime, degree):
        one = [1] + [0] * (degree - 1)
        if _power(order, rule, prime) == one and all(
            _power(order // factor, rule, prime) != one for factor in factors
        ):
            return rule
    raise AssertionError("Every finite field has a primitive element.")


def recurrence(rule: Polynomial, how_many: int, prime: int) -> NDArray[np.int64]:
    """Return the first terms of 0, …, 0, 1 continued by s[i + n] = Σ c[j]·s[i + j] modulo the prime."""
    degree = len(rule)
    terms = np.zeros(2 * degree, dtype=np.int64)
    terms[degree - 1] = 1
    for place in range(degree, 2 * degree):
        terms[place] = int(np.dot(terms[place - degree : place], rule)) % prime
    while terms.size < how_many:
        # x^jump in the basis of small powers says how a term follows from those `jump` places before it.
        jump = terms.size - degree + 1
        steps = _power(jump, rule, prime)
        more = sum((c * terms[j : j + jump] for j, c in enumerate(steps) if c), np.zeros(jump, np.int64))
        terms = np.concatenate([terms[:jump], np.asarray(more) % prime])
    return terms[:how_many]


def _polynomials(prime: int, degree: int) -> Iterator[Polynomial]:
    """Yield the polynomials whose constant term allows x to be primitive, those of few terms first."""
    roots = {c for c in range(1, prime) if _is_primitive(c, prime)}
    # The norm of x, (−1)^(degree + 1)·c[0], generates the prime field.
    constants = [c for c in range(1, prime) if (c if degree % 2 else -c) % prime in roots]
    for terms in range(1, degree):
        for rest in product(range(prime), repeat=terms):
            if not rest[-1]:
                continue
            for constant in constants:
                yield (constant, *rest, *[0] * (degree - 1 - terms))
    if degree == 1:
        yield from ((c,) for c in constants)


def _is_primitive(number: int, prime: int) -> bool:
    return all(pow(number, (prime - 1) // factor, prime) != 1 for factor in prime_factors(prime - 1))


def _power(exponent: int, rule: Polynomial, prime: int) -> list[int]:
    """Return x^exponent as coefficients of 1, x, …, x^(n − 1)."""
    degree = len(rule)
    result = [1] + [0] * (degree - 1)
    for bit in bin(exponent)[2:]:
        squared = np.convolve(result, result) % prime
        if bit == "1":
            squared = np.concatenate([[0], squared])
        result = _reduce(squared.tolist(), rule, prime)
    return result


def _reduce(coefficients: list[int], rule: Polynomial, prime: int) -> list[int]:
    degree = len(rule)
    while len(coefficients) > degree:
        top = coefficients.pop()
        if top:
            start = len(coefficients) - degree
            for j, c in enumerate(rule):
                if c:
                    coefficients[start + j] = (coefficients[start + j] + top * c) % prime
    return coefficients + [0] * (degree - len(coefficients))
