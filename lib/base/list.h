// SPDX-License-Identifier: Apache-2.0
// List: an intrusive doubly linked list. An element is linked through a ListNode base class, so that queueing
// a request allocates nothing. An element is in at most one list per node. Unlinking does not need the list.
//
// Thread-safety: none. A list and its elements belong to one thread.
// Ownership: the list owns nothing. The destructor of a node asserts that it is unlinked.
#pragma once

#include <cstddef>

#include "lib/base/assert.h"

namespace wss {

template <typename Tag = void>
class ListNode {
  public:
    ListNode() = default;
    ListNode(const ListNode&) = delete;
    ListNode& operator=(const ListNode&) = delete;
    ~ListNode() { WSS_ASSERT(!linked(), "an element dies while a list still points to it"); }

    bool linked() const { return next_ != nullptr; }
    void unlink() {
        if (!linked()) return;
        next_->previous_ = previous_;
        previous_->next_ = next_;
        next_ = previous_ = nullptr;
    }

  private:
    template <typename T, typename U>
    friend class List;
    ListNode* next_ = nullptr;
    ListNode* previous_ = nullptr;
};

template <typename T, typename Tag = void>
class List {
    using Node = ListNode<Tag>;

  public:
    List() { head_.next_ = head_.previous_ = &head_; }
    List(const List&) = delete;
    List& operator=(const List&) = delete;
    ~List() {
        while (pop_front() != nullptr) {
        }
        head_.next_ = head_.previous_ = nullptr;
    }

    bool empty() const { return head_.next_ == &head_; }
    T* front() { return empty() ? nullptr : element(head_.next_); }
    T* back() { return empty() ? nullptr : element(head_.previous_); }
    void push_back(T& item) { insert_before(&head_, &static_cast<Node&>(item)); }
    void push_front(T& item) { insert_before(head_.next_, &static_cast<Node&>(item)); }
    // `before` must be an element of this list.
    void insert(T& before, T& item) { insert_before(&static_cast<Node&>(before), &static_cast<Node&>(item)); }
    T* pop_front() {
        if (empty()) return nullptr;
        Node* node = head_.next_;
        node->unlink();
        return element(node);
    }
    // Moves every element of `other` to the end of this list.
    void splice_back(List& other) {
        while (T* item = other.pop_front()) push_back(*item);
    }

    // `visit` may unlink or destroy the current element, but no other.
    template <typename Visit>
    void for_each(Visit&& visit) {
        for (Node* node = head_.next_; node != &head_;) {
            Node* next = node->next_;
            visit(*element(node));
            node = next;
        }
    }

    // Returns the first element for which `accept` returns true, or nullptr if there is none.
    template <typename Accept>
    T* find_if(Accept&& accept) {
        for (Node* node = head_.next_; node != &head_; node = node->next_)
            if (accept(*element(node))) return element(node);
        return nullptr;
    }

  private:
    static T* element(Node* node) { return static_cast<T*>(node); }
    static void insert_before(Node* where, Node* node) {
        WSS_ASSERT(!node->linked(), "an element joins one list at a time");
        node->next_ = where;
        node->previous_ = where->previous_;
        where->previous_->next_ = node;
        where->previous_ = node;
    }

    Node head_;
};

}  // namespace wss
