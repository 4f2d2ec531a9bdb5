"""What people hold in their hands: the lab, sessions, queries and what they answer.

Names here are public and settled. Rules about privacy live below, in the curator: a lab only puts its rooms
together.
"""
