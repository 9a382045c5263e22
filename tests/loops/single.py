"""Loops of one process: plain, closures, accumulation, mixed precision, torch.compile, several optimizers."""

from __future__ import annotations

import torch

from loops.task import (
    Outcome,
    Span,
    batch,
    load,
    loss_of,
    network,
    optimizer_of,
    part,
    rescaler_of,
    rescales_of,
    save,
    weights_of,
)


def plain(span: Span, *, accumulate: int = 1, autocast: bool = False) -> Outcome:
    model = network()
    rescaler, optimizer = rescaler_of(model), optimizer_of(model)
    rescaler.attach(optimizer)
    load(span.resume, model=model, optimizer=optimizer, rescaler=rescaler)
    for step in span:
        optimizer.zero_grad()
        for index in range(accumulate):
            x, y = part(step, index, accumulate)
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                loss = loss_of(model(x), y) / accumulate
            loss.backward()
        optimizer.step()
    save(span.save, model=model, optimizer=optimizer, rescaler=rescaler)
    return Outcome(weights_of(model), rescales_of(rescaler), span.last)


def accumulated(span: Span) -> Outcome:
    return plain(span, accumulate=4)


def autocast(span: Span) -> Outcome:
    return plain(span, autocast=True)


def closure(span: Span) -> Outcome:
    model = network()
    rescaler, optimizer = rescaler_of(model), optimizer_of(model)
    rescaler.attach(optimizer)
    load(span.resume, model=model, optimizer=optimizer, rescaler=rescaler)

    for step in span:

        def evaluate(step=step):
            optimizer.zero_grad()
            x, y = batch(step)
            loss = loss_of(model(x), y)
            loss.backward()
            return loss

        optimizer.step(evaluate)
    save(span.save, model=model, optimizer=optimizer, rescaler=rescaler)
    return Outcome(weights_of(model), rescales_of(rescaler), span.last)


def grad_scaler(span: Span, *, fused: bool = False) -> Outcome:
    """The second and the seventh batch overflow once, and are tried again."""
    model = network()
    rescaler, optimizer = rescaler_of(model), optimizer_of(model, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    rescaler.attach(optimizer)
    load(span.resume, model=model, optimizer=optimizer, rescaler=rescaler, scaler=scaler)
    for step in span:
        for overflow in (True, False) if step in (1, 6) else (False,):
            optimizer.zero_grad()
            x, y = batch(step)
            loss = loss_of(model(x), y)
            scaler.scale(loss * torch.inf if overflow else loss).backward()
            before = weights_of(model)
            scaler.step(optimizer)
            scaler.update()
            same = all(torch.equal(before[name], value) for name, value in weights_of(model).items())
            assert same == overflow, "a skipped step leaves the weights alone, a real one does not"
    save(span.save, model=model, optimizer=optimizer, rescaler=rescaler, scaler=scaler)
    return Outcome(weights_of(model), rescales_of(rescaler), span.last)


def grad_scaler_fused(span: Span) -> Outcome:
    return grad_scaler(span, fused=True)


def compiled(span: Span, *, backend: str = "aot_eager") -> Outcome:
    model = network()
    rescaler = rescaler_of(model)
    parameters = list(model.parameters())
    model_compiled = torch.compile(model, backend=backend)
    optimizer = optimizer_of(model_compiled)
    rescaler.attach(optimizer)
    load(span.resume, model=model, optimizer=optimizer, rescaler=rescaler)

    @torch.compile(backend=backend)
    def step_of_optimizer():
        optimizer.step()

    for step in span:
        optimizer.zero_grad()
        x, y = batch(step)
        loss_of(model_compiled(x), y).backward()
        step_of_optimizer()
    assert all(p is q for p, q in zip(parameters, model.parameters(), strict=True))
    save(span.save, model=model, optimizer=optimizer, rescaler=rescaler)
    return Outcome(weights_of(model), rescales_of(rescaler), span.last)


def several_groups(span: Span) -> Outcome:
    model = network()
    rescaler = rescaler_of(model)
    optimizer = torch.optim.SGD([{"params": model[0].parameters()}, {"params": model[2:].parameters()}], lr=0.05, momentum=0.9)
    rescaler.attach(optimizer)
    load(span.resume, model=model, optimizer=optimizer, rescaler=rescaler)
    for step in span:
        optimizer.zero_grad()
        x, y = batch(step)
        loss_of(model(x), y).backward()
        optimizer.step()
    save(span.save, model=model, optimizer=optimizer, rescaler=rescaler)
    return Outcome(weights_of(model), rescales_of(rescaler), span.last)


def two_optimizers(span: Span) -> Outcome:
    """Each holds a part of the network and pulls that part."""
    model = network()
    rescaler = rescaler_of(model)
    body, head = (torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9) for m in (model[:4], model[4:]))
    rescaler.attach(body)
    rescaler.attach(head)
    load(span.resume, model=model, body=body, head=head, rescaler=rescaler)
    for step in span:
        body.zero_grad()
        head.zero_grad()
        x, y = batch(step)
        loss_of(model(x), y).backward()
        body.step()
        head.step()
    save(span.save, model=model, body=body, head=head, rescaler=rescaler)
    return Outcome(weights_of(model), rescales_of(rescaler), 2 * span.last)
