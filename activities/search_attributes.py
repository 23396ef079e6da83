"""Search attributes: made where the server allows it, done without where not."""

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError

from baton.names import SEARCH_ATTRIBUTES


async def ensure_search_attributes(client: Client) -> bool:
    """Whether the namespace has Baton's search attributes, after trying to add what is missing."""
    try:
        listed = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
        missing = [name for name in SEARCH_ATTRIBUTES if name not in listed.custom_attributes]
        if missing:
            await client.operator_service.add_search_attributes(
                AddSearchAttributesRequest(
                    namespace=client.namespace,
                    search_attributes=dict.fromkeys(missing, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD),
                )
            )
    except RPCError:
        return False
    return True
