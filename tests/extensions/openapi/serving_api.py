"""A FastAPI application on loopback that answers with what it was sent, and its own document."""

import base64
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import uvicorn
from fastapi import (
    Body,
    Cookie,
    Depends,
    FastAPI,
    File,
    Form,
    Header,
    HTTPException,
    Query,
    Request,
    UploadFile,
)
from fastapi.security import APIKeyHeader, APIKeyQuery, HTTPBasic, HTTPBasicCredentials, HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials
from pydantic import BaseModel


class Item(BaseModel):
    name: str
    tags: list[str] = []
    parent: "Item | None" = None
    price: float | None = None


def make_app() -> FastAPI:
    app = FastAPI(title="Echo")

    @app.get("/path/{text}/{number}", tags=["places"])
    def path(text: str, number: int) -> dict[str, Any]:
        return {"text": text, "number": number}

    @app.get("/query", tags=["places"])
    def query(
        text: str, flag: bool = False, many: Annotated[list[str] | None, Query()] = None
    ) -> dict[str, Any]:
        return {"text": text, "flag": flag, "many": many}

    @app.get("/header", tags=["places"])
    def header(x_text: Annotated[str, Header()]) -> dict[str, Any]:
        return {"text": x_text}

    @app.get("/cookie", tags=["places"])
    def cookie(text: Annotated[str, Cookie()]) -> dict[str, Any]:
        return {"text": text}

    @app.post("/json", tags=["bodies"])
    def takes_json(item: Item) -> Item:
        return item

    @app.put("/any", tags=["bodies"])
    def takes_anything(value: Annotated[Any, Body(embed=True)]) -> dict[str, Any]:
        return {"value": value}

    @app.post("/form", tags=["bodies"])
    def takes_form(
        text: Annotated[str, Form()], many: Annotated[list[str] | None, Form()] = None
    ) -> dict[str, Any]:
        return {"text": text, "many": many}

    @app.post("/parts", tags=["bodies"])
    async def takes_parts(
        text: Annotated[str, Form()], file: Annotated[UploadFile, File()]
    ) -> dict[str, Any]:
        content = base64.b64encode(await file.read()).decode()
        return {"text": text, "name": file.filename, "type": file.content_type, "content": content}

    raw = {"requestBody": {"required": True, "content": {"application/octet-stream": {}}}}

    @app.put("/raw", tags=["bodies"], openapi_extra=raw)
    async def takes_raw(request: Request) -> dict[str, Any]:
        content = base64.b64encode(await request.body()).decode()
        return {"type": request.headers["content-type"], "content": content}

    @app.get("/bearer", tags=["secret"])
    def bearer(
        given: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())],
    ) -> dict[str, Any]:
        return {"got": given.credentials}

    @app.get("/basic", tags=["secret"])
    def with_basic(given: Annotated[HTTPBasicCredentials, Depends(HTTPBasic())]) -> dict[str, Any]:
        return {"user": given.username, "password": given.password}

    @app.get("/header-key", tags=["secret"])
    def header_key(given: Annotated[str, Depends(APIKeyHeader(name="X-Key"))]) -> dict[str, Any]:
        return {"length": len(given)}

    @app.get("/query-key", tags=["secret"])
    def query_key(given: Annotated[str, Depends(APIKeyQuery(name="key"))]) -> dict[str, Any]:
        return {"length": len(given)}

    @app.delete("/items/{number}", tags=["places"], status_code=204)
    def remove(number: int) -> None:
        if number < 0:
            raise HTTPException(404, detail="no such item: " + "x" * 20_000)

    return app


@dataclass(frozen=True)
class Api:
    """The application while it runs."""

    place: str
    document: dict[str, Any]

    @property
    def url(self) -> str:
        return f"http://{self.place}/"


@contextmanager
def serving_api() -> Iterator[Api]:
    app = make_app()
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Api(f"127.0.0.1:{listener.getsockname()[1]}", app.openapi())
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
