def summarize(m):
    import statistics as st

    out = []
    for d in (0.0, 1e-6):
        for p in ("OpenDP", "Tumult"):
            rs = [
                (c.ours.mean / c.peers[p].mean if c.peers[p].mean else 1.0, c.name)
                for c in m
                if bool(c.delta) == bool(d) and p in c.peers
            ]
            if rs:
                out.append(f"{p} δ={d}: {len(rs)} median {st.median(r for r, _ in rs):.3f} worst {max(rs)}")
    return out


def write_page(m):
    return ""


def draw_chart(m, p):
    pass
