// SPDX-License-Identifier: Apache-2.0
// Cards: one for each figure of the papers, with the paper's axes, its quoted values, our measurements of the
// same points, and whether they support the paper's conclusions. A card is computed from the rows of a figure
// of wssbench; paper_cards.cc describes them. The papers are: A RAMP over RDMA (Murata, Kawashima, Tatebe
// 2016), B and C remote I/O over RDMA (Kato, Ozawa, Goda, Kitsuregawa), D Wire Speed Storage (Watanabe, Oe,
// Nishikawa).
#pragma once

#include <string>
#include <vector>

#include "tools/wssbench/context.h"

namespace wss::wssbench {

// Each card is {paper_figure, figure, title, x, y, draw, relative, parameters, quoted, values, command,
// machine, source, measured, verdict, claims, why_different}. A card without measurements has "not_measured",
// with the reason, instead of the members after "values". The "paper_figure" of a card that is in no paper is
// null.
//
// "values" are those of the paper: {series, low, high[, x]}; a value without x belongs to no single point.
// "measured" has the lines: {name, labels, points: [{x, y, badge, turns[, in][, latency]}]}. "in" has the
// turns in other units; "latency" has the distribution (measure.h).
// "draw" is lines or bars; "relative": y is a ratio. "stack" has stacked bars:
// {unit, bars: [{name, parts: [{name, y}]}]}.
// "claims" are the paper's conclusions: {says, here, ratio, low, high, paper, badge, status[, reason]}. The
// status is agrees, differs or not conclusive.

// The cards of a figure, in the papers' order.
Json cards_of(const Json& figure);

// A card for every figure of the papers. A figure that is missing or has an error leads to cards without
// measurements.
Json all_cards(const std::vector<Json>& figures);

// How a value was transferred: RDMA hardware, soft RDMA, memory copy (shm, and sockets within this machine),
// TCP network, or no network; in a machine that counts instructions, also "virtual time". `fabric`: shm, tcp,
// tls, rdma or local. `elsewhere`: the other side may be on another machine.
std::string badge_of(const std::string& fabric, bool elsewhere, bool counted);

// The descriptions of all cards, as JSON: see paper_cards.cc.
const Json& card_descriptions();

}  // namespace wss::wssbench
